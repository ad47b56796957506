"""Members of the release group: their partitions, and the failure of a member."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any, cast

import pytest

from monitor.errors import FailedError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.membership import Membership


def test_members_share_partitions(
    connections: KafkaConnections,
    make_topic: Callable[..., tuple[str, str]],
    topic: Callable[[str], str],
    eventually: Callable[..., Any],
) -> None:
    """Two members own one partition each; when one leaves, the other is woken and owns both."""
    name, _ = make_topic("ledger", 2)
    group, wake = topic("release"), threading.Event()
    with closing(Membership(connections, name, group, wake)) as first:
        eventually(lambda: first.owned == {0, 1}, deadline_seconds=20)
        with closing(Membership(connections, name, group, threading.Event())) as second:
            eventually(lambda: len(first.owned) == len(second.owned) == 1, deadline_seconds=20)
            assert first.owned | second.owned == {0, 1}
            wake.clear()
        assert wake.wait(20)
        eventually(lambda: first.owned == {0, 1}, deadline_seconds=20)


class Member:
    """A fake consumer whose poll fails."""

    def subscribe(self, topics: list[str], listener: Any) -> None: ...

    def poll(self, timeout_ms: int) -> None:
        raise TypeError(f"a fault, after {timeout_ms} ms")

    def close(self, **_: Any) -> None: ...


def test_dead_member_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A member whose thread has died raises the class of its error from `owned`, and wakes the service."""
    connections = type(
        "Connections", (), {"create_member": lambda *_, **__: Member(), "translate_errors": lambda _: nullcontext()}
    )()
    wake = threading.Event()
    member = Membership(cast("Any", connections), "alerts", "town-release", wake)
    try:
        assert wake.wait(20)
        with pytest.raises(FailedError, match=r"polls the release group has ended \(TypeError\)") as raised:
            _ = member.owned
        assert "after 250 ms" not in f"{raised.value}{caplog.text}"
    finally:
        member.close()
