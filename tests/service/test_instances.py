"""Instances with another configuration, person key or Redis find each other, on real servers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from monitor.contracts.clock import SystemClock
from monitor.observe.metric_catalog import DIFFERENCES, PREFIX
from monitor.service.instances import EVERY_SECONDS, STORE_SECONDS, InstanceWatch
from monitor.service.run import create_instance_watch, prepare
from monitor.store.hashing import PersonHasher
from tests.service.running import RunningInstance, create_topics, make_real_time, run_instance

Eventually = Callable[..., Any]
OTHER_KEY = b"fedcba9876543210fedcba9876543210"


class Watching:
    """The comparison of a running instance, with a clock that each `look` advances."""

    def __init__(self, town: Any, instance: RunningInstance) -> None:
        self._now, self._metrics = 0.0, instance.metrics
        preflight = prepare(town.settings, town.real_clock)
        self._watch: InstanceWatch = create_instance_watch(
            town.settings, preflight, instance.windows, instance.service, instance.metrics, lambda: self._now
        )

    def look(self) -> dict[str, float]:
        """Compare, and return the numbers above 0 by difference."""
        self._now += EVERY_SECONDS
        self._watch.look()
        value = self._metrics.registry.get_sample_value
        numbers = {kind: value(f"{PREFIX}_other_instances", {"difference": kind}) for kind in DIFFERENCES}
        return {kind: number for kind, number in numbers.items() if number}


class Twin:
    """Another instance's view of a town: the same topics, with other settings."""

    def __init__(self, town: Any, settings: Any) -> None:
        self.settings, self.real_clock = settings, town.real_clock


@pytest.fixture
def town(make_town: Callable[..., Any]) -> Any:
    """A town with two input partitions, in real time, whose ticks are a minute apart."""
    town = make_town(inputs=2, **make_real_time(60, 5))
    create_topics(town)
    town.real_clock = SystemClock()
    return town


@pytest.mark.promise(23)
def test_other_key_and_configuration_are_named(
    town: Any, make_settings: Callable[..., Any], caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    """
    Both sides see that a person key or a configuration differs, with tags that reveal no key.

    One instance has another key; then another one a higher threshold, which changes no facts, so that both share the
    input group. When they have left, one line says that all agree again.
    """
    config = town.settings.config
    kafka = {"bootstrap_servers": list(config.kafka.bootstrap_servers), "topics": town.topics.model_dump()}
    changes = make_real_time(60, 5)
    changes["monitors"][0]["threshold"] = 6
    service = {"name": config.service.name, "shards": 4}
    stricter = Twin(town, make_settings(**changes, service=service, kafka=kafka))
    rotated = Twin(town, replace(town.settings, hasher=PersonHasher(OTHER_KEY)))
    caplog.set_level(logging.INFO)
    with run_instance(town) as here:
        watch = Watching(town, here)
        eventually(lambda: watch.look() == {}, 30)
        with run_instance(rotated) as there:
            other = Watching(rotated, there)
            eventually(lambda: (watch.look(), other.look()) == ({"person_key": 1.0}, {"person_key": 1.0}), 30)
        with run_instance(stricter):
            eventually(lambda: watch.look() == {"configuration": 1.0}, 30)
        eventually(lambda: watch.look() == {}, 30)
    tags = town.settings.hasher.key_tag, rotated.settings.hasher.key_tag
    lines = [message for message in caplog.messages if "has another person key" in message]
    assert len(lines) == 2
    assert f"(tag {tags[1]}, here {tags[0]})" in lines[0]
    assert sum("has another configuration (" in message for message in caplog.messages) == 1
    assert any("all instances have the same configuration" in message for message in caplog.messages)
    for secret in (OTHER_KEY.decode(), OTHER_KEY.hex(), rotated.settings.hasher.key_digest.hex()):
        assert secret not in caplog.text


def test_other_store_is_named(town: Any, caplog: pytest.LogCaptureFixture, eventually: Eventually) -> None:
    """
    An instance whose store lacks the writes of another instance reports it; with one store no instance does.

    Both stores are databases of one server. Each instance reads one of the two input partitions.
    """
    address = town.settings.redis
    elsewhere = Twin(town, replace(town.settings, redis=replace(address, url=address.url.replace("/0", "/1"))))
    assert elsewhere.settings.redis.url != address.url
    produce(town)
    with run_instance(town) as here:
        watch = Watching(town, here)
        with run_instance(town) as same:
            beside = Watching(town, same)
            eventually(lambda: is_shared(here, same), 30)
            for _ in range(int(STORE_SECONDS // EVERY_SECONDS) + 2):
                assert (watch.look(), beside.look()) == ({}, {})
        with run_instance(elsewhere) as there:
            other = Watching(elsewhere, there)
            eventually(lambda: is_shared(here, there), 30)
            produce(town)
            eventually(lambda: (watch.look(), other.look()) == ({"store": 1.0}, {"store": 1.0}), 40)
    lines = [message for message in caplog.messages if "has written the facts of input partition" in message]
    assert len(lines) == 2
    assert all("Compare redis.url" in line for line in lines)


def is_shared(first: RunningInstance, second: RunningInstance) -> bool:
    """Return whether each of two instances reads one input partition."""
    return {len(instance.service.reader.assigned) for instance in (first, second)} == {1}


def produce(town: Any) -> None:
    """Produce invalid records to both partitions, which are read and committed like visits."""
    producer = town.settings.kafka.create_producer()
    try:
        for partition in (0, 1):
            producer.send(town.topics.visits, value=b"no visit", partition=partition).get(timeout=10)
    finally:
        producer.close(timeout=5)
