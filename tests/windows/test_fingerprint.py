"""The fingerprint changes with everything that decides facts, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import time
from fractions import Fraction
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from monitor.public.instants import DAY
from monitor.public.parameters import Registry, Scheme
from monitor.public.schedule import DesignatedTimes
from monitor.windows.fingerprint import fingerprint

KEY_DIGEST, TOPIC = b"k" * 16, "topic-id"
Change = Callable[[Scheme], Scheme]


def _with_rule(scheme: Scheme, **changes: object) -> Scheme:
    monitor = scheme.over_time[0]
    rules = tuple(replace(rule, **changes) for rule in monitor.rules)  # type: ignore[arg-type]  # one test, many fields
    return replace(scheme, over_time=(replace(monitor, rules=rules),))


def _at(scheme: Scheme, *times: str, zone: str = "Asia/Tokyo") -> Scheme:
    return replace(scheme, at_times=(replace(scheme.at_times[0], times=DesignatedTimes.of(times, zone)),))


def _watching(scheme: Scheme, rows: tuple[int, ...]) -> Scheme:
    monitor = scheme.over_time[0]
    return replace(scheme, over_time=(replace(monitor, rows=rows, rules=monitor.rules[: len(rows)]),))


DECIDING: dict[str, Change] = {
    "slot": lambda scheme: replace(scheme, slots=replace(scheme.slots, length=scheme.slots.length * 2)),
    "origin": lambda scheme: replace(scheme, slots=replace(scheme.slots, origin=scheme.slots.origin + 1)),
    "accept_ahead": lambda scheme: replace(scheme, ahead=2),
    "default_stay": lambda scheme: replace(scheme, default_stay=1),
    "shards": lambda scheme: replace(scheme, registry=Registry(scheme.registry.ids, 5)),
    "registry": lambda scheme: replace(scheme, registry=Registry((*scheme.registry.ids, "new"), 4)),
    "order": lambda scheme: replace(scheme, registry=Registry(scheme.registry.ids[::-1], 4)),
    "window": lambda scheme: _with_rule(scheme, window=7),
    "watched": lambda scheme: _watching(scheme, tuple(range(39))),
    "times": lambda scheme: _at(scheme, "18:00", "06:00"),
    "instant": lambda scheme: _at(scheme, "2026-01-01T18:00:00Z"),
    "zone": lambda scheme: _at(scheme, "18:00", zone="Europe/Oslo"),
    "horizon": lambda scheme: replace(scheme, at_times=(replace(scheme.at_times[0], horizon=DAY),)),
    "no times": lambda scheme: replace(scheme, at_times=()),
}
IDLE: dict[str, Change] = {
    "threshold": lambda scheme: _with_rule(scheme, threshold=9),
    "epsilon": lambda scheme: _with_rule(scheme, epsilon=Fraction(1, 3)),
    "answers": lambda scheme: _with_rule(scheme, answers=2),
    "release_delay": lambda scheme: replace(scheme, release_delay=1),
    "tolerance": lambda scheme: replace(scheme, tolerance=2),
    "at_times epsilon": lambda scheme: replace(
        scheme, at_times=(replace(scheme.at_times[0], epsilon=Fraction(2), threshold=8, name="night"),)
    ),
    "a zone whose clocks show the same": lambda scheme: _at(scheme, "18:00", zone="Etc/GMT-9"),
    "a monitor twice": lambda scheme: replace(scheme, over_time=scheme.over_time * 2, at_times=scheme.at_times * 2),
}


def test_it_is_16_hexadecimal_digits_and_the_same_each_time(scheme: Scheme) -> None:
    found = fingerprint(scheme, KEY_DIGEST, TOPIC)
    assert len(found) == 16
    assert int(found, 16) >= 0
    assert found == fingerprint(replace(scheme), KEY_DIGEST, TOPIC)


@pytest.mark.parametrize("change", DECIDING.values(), ids=DECIDING)
def test_what_decides_facts_changes_it(scheme: Scheme, change: Change) -> None:
    assert fingerprint(change(scheme), KEY_DIGEST, TOPIC) != fingerprint(scheme, KEY_DIGEST, TOPIC)


@pytest.mark.parametrize("change", IDLE.values(), ids=IDLE)
def test_what_decides_no_facts_leaves_it(scheme: Scheme, change: Change) -> None:
    assert fingerprint(change(scheme), KEY_DIGEST, TOPIC) == fingerprint(scheme, KEY_DIGEST, TOPIC)


def test_other_rules_under_the_same_zones_name_change_it(scheme: Scheme) -> None:
    """As another image brings them: Cairo with summer time, and without, as Johannesburg has it.

    Facts of 18:00 lie under 15:00Z by the ones and would be asked for under 16:00Z by the others: none are there, under
    a progress that claims them.
    """
    found = set()
    for rules in ("Cairo", "Johannesburg"):
        with files("tzdata").joinpath("zoneinfo", "Africa", rules).open("rb") as file:
            zone = ZoneInfo.from_file(file, key="Africa/Cairo")
        times = DesignatedTimes((), (time(18),), zone)
        changed = replace(scheme, at_times=(replace(scheme.at_times[0], times=times),))
        found.add(fingerprint(changed, KEY_DIGEST, TOPIC))
    assert len(found) == 2


def test_another_hash_key_or_input_topic_changes_it(scheme: Scheme) -> None:
    found = fingerprint(scheme, KEY_DIGEST, TOPIC)
    assert fingerprint(scheme, b"x" * 16, TOPIC) != found
    assert fingerprint(scheme, KEY_DIGEST, "made anew") != found
