"""The selector of Kafka's clients behaves as the system's selector does."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from monitor.brokers.selector import Selector

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@pytest.fixture(params=[Selector, selectors.DefaultSelector])
def selector(request: pytest.FixtureRequest) -> Iterator[selectors.BaseSelector]:
    """A selector: ours, then the system's."""
    made: selectors.BaseSelector = request.param()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    one, two = socket.socketpair()
    yield one, two
    one.close()
    two.close()


Pair = tuple[socket.socket, socket.socket]


def test_key_follows_the_registration(selector: selectors.BaseSelector, pair: Pair) -> None:
    """A file has the key of its last change, by object and by descriptor, until it is removed."""
    one, _ = pair
    with pytest.raises(KeyError):
        selector.get_key(one)
    assert selector.register(one, READ, "first") == selector.get_key(one) == selector.get_key(one.fileno())
    selector.modify(one, READ | WRITE, "second")
    assert selector.get_key(one)[2:] == (READ | WRITE, "second")
    selector.modify(one, READ | WRITE, "third")
    assert selector.get_key(one).data == "third"
    selector.unregister(one)
    with pytest.raises(KeyError):
        selector.get_key(one)


def test_closed_socket_can_be_removed(selector: selectors.BaseSelector, pair: Pair) -> None:
    """A socket that was closed while it was registered has its key until it is removed."""
    one, _ = pair
    selector.register(one, READ, "open")
    one.close()
    assert selector.get_key(one).data == "open"
    selector.unregister(one)
    with pytest.raises(ValueError, match="Invalid file"):
        selector.get_key(one)


def test_events_arrive(selector: selectors.BaseSelector, pair: Pair) -> None:
    """A selector returns the keys of files that are ready."""
    one, two = pair
    selector.register(one, READ, "data")
    assert selector.select(0) == []
    two.send(b"x")
    assert [(key.data, events) for key, events in selector.select(1)] == [("data", READ)]
