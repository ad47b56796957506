"""Why a tick is unknown: each cause is counted, and one log line explains it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from monitor.errors import UnreachableError
from monitor.public.parameters import Parameters
from monitor.release.decide import Decision, Evidence
from monitor.release.unknown import CAUSES, FACTS_MISSING, INPUT_BEHIND, LATE, count_causes, explain
from monitor.windows.facts import Span
from tests.release.test_evidence import find_closed
from tests.release.worlds import FrozenClock, release_instant

Make = Callable[..., Parameters]


def test_unread_record_is_named(
    make_site: Callable[..., Any],
    make_parameters: Make,
    put: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    The log names the input partition that a tick waits for, and the metrics count the shard and the missing records.

        partition   0      1
        end         1      2
        read to     1      1
    """
    parameters = find_closed(make_parameters)
    clock = FrozenClock(parameters.grid.start(0))
    site = make_site(parameters, clock)
    site.release.take_over()
    put(site.input_topic, 0, 1)
    put(site.input_topic, 1, 2)
    site.windows.write([Span(0, 0, 1), Span(1, 0, 1)], {})
    clock.instant = release_instant(parameters, 0)
    with caplog.at_level(logging.WARNING, "monitor.release.partition"):
        assert site.tick(0)
    lines = [record.getMessage() for record in caplog.records if "is unknown" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].endswith("is unknown: the windows contain input partition 1 up to offset 1 of 2")
    assert site.observer.causes == [{INPUT_BEHIND: 1}]
    assert site.observer.missing_records == {0: 0, 1: 1}


def test_same_causes_are_logged_once(
    make_site: Callable[..., Any],
    make_parameters: Make,
    put: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A second unknown tick with the same causes is counted and not logged; a known tick after it is logged.

        tick        0          1          2
                    unknown    unknown    known
        log         reason                known again
    """
    parameters = find_closed(make_parameters)
    clock = FrozenClock(parameters.grid.start(0))
    site = make_site(parameters, clock)
    site.release.take_over()
    unknown = Decision((), {("stations", "unknown"): 3})
    with caplog.at_level(logging.WARNING, "monitor.release.partition"):
        site.release._report_unknown(0, Evidence({}, {0: LATE}), unknown)
        site.release._report_unknown(1, Evidence({}, {0: LATE}), unknown)
        site.release._report_unknown(2, Evidence({}), Decision((), {("stations", "safe"): 3}))
    lines = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].endswith("the facts were complete only after the release time")
    assert lines[1] == "ticks are known again"
    assert site.observer.causes == [{LATE: 1}] * 2


def test_unreachable_store_is_named(
    make_site: Callable[..., Any],
    make_parameters: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shard that Redis did not return is unknown because of the store."""
    parameters = find_closed(make_parameters)
    clock = FrozenClock(parameters.grid.start(0))
    site = make_site(parameters, clock)
    site.release.take_over()

    class Away:
        def read(self, _questions: Any) -> Any:
            raise UnreachableError("Redis does not answer")

        def __getattr__(self, name: str) -> Any:
            return getattr(site.windows, name)

    monkeypatch.setattr(site.release, "_context", replace(site.context, windows=Away()))
    clock.instant = release_instant(parameters, 0)
    assert site.tick(0)
    assert site.statuses() == ["unknown"] * 3
    assert site.observer.causes == [{"store_unreachable": 1}]


def test_unreachable_kafka_is_named(
    make_site: Callable[..., Any], make_parameters: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick whose end offsets Kafka did not return is unknown because of Kafka."""
    parameters = find_closed(make_parameters)
    clock = FrozenClock(parameters.grid.start(0))
    site = make_site(parameters, clock)
    site.release.take_over()

    class Away:
        def read_end_offsets_at(self, _tick: int) -> Any:
            raise UnreachableError("Kafka does not answer")

        def __getattr__(self, name: str) -> Any:
            return getattr(site.context.input_topic, name)

    monkeypatch.setattr(site.release, "_context", replace(site.context, input_topic=Away()))
    clock.instant = release_instant(parameters, 0)
    assert site.tick(0)
    assert site.observer.causes == [{"kafka_unreachable": 1}]


def test_late_facts_are_named(make_site: Callable[..., Any], make_parameters: Make) -> None:
    """Facts that are complete only after the release time are late."""
    parameters = find_closed(make_parameters, 90)
    clock = FrozenClock(parameters.grid.start(0))
    site = make_site(parameters, clock)
    site.release.take_over()
    clock.instant = release_instant(parameters, 0)
    assert site.tick(0)
    assert site.observer.causes == [{LATE: 1}]


def test_known_tick_has_no_cause(make_site: Callable[..., Any], make_parameters: Make) -> None:
    """A tick without an unknown answer counts and logs no cause."""
    parameters = find_closed(make_parameters, 10)
    clock = FrozenClock(parameters.grid.start(0))
    site = make_site(parameters, clock)
    site.release.take_over()
    clock.instant = release_instant(parameters, 0)
    assert site.tick(0)
    assert site.statuses() == ["safe"] * 3
    assert site.observer.causes == []


def test_unknown_answer_means_missing_facts() -> None:
    """If every shard was read and an answer is unknown, facts of earlier slots are missing."""
    assert count_causes(Evidence({}), Decision((), {("stations", "unknown"): 3})) == {FACTS_MISSING: 1}
    assert count_causes(Evidence({}), Decision((), {("stations", "safe"): 3})) == {}


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_an_explanation(cause: str) -> None:
    """Each cause of the closed list is explained."""
    assert explain({cause: 1}, {0: (3, 7)})
