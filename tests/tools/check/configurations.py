"""Random configurations, as a person might write them: most are valid, some have one or two problems."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

SLOTS: Final = {"1s": 1, "2s": 2, "7s": 7, "90s": 90, "10m": 600, "1h": 3_600, "3h30m": 12_600, "1d": 86_400}
ORIGINS: Final = (
    "2026-01-05T00:00:00+09:00",
    "1970-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "2026-03-29T01:59:59.999Z",
    "2199-12-31T23:59:59-11:30",
    "9999-12-31T23:59:59.001Z",
)
EPSILONS: Final = (1, 2, "1", "1/2", "0.5", "1/3", "0.123456789", "123457/9876541", "40", "1/1000000", 999_999)
LARGEST: Final = "1000000000000"
TIMES: Final = ("00:00", "18:00", "02:30", "12:00:01", "23:59:59")
INSTANTS: Final = (
    "2026-01-05T18:00:00Z",
    "2026-03-29T02:30:00.123456+01:00",
    "1950-01-01T00:00:00Z",
    "2999-12-31T23:59:59.999999Z",
)
ZONES: Final = ("UTC", "Asia/Tokyo", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu")
ODD: Final = (
    '"',
    "\\",
    "/",
    "駅",
    "\u200b",
    "'",
    "{x}",
    "%",
    "#",
    "*",
    "🏥",
    ": ",
    "-",
    "null",
    "2026-01-05",
    "1e3",
    "\u2028",
)
TOPICS: Final = ("visits", "a.b", "a_b", "a-b", "safety-alerts", "x" * 200, "Visits", "visits.dead")


@dataclass
class Drawn:
    """A configuration as a tree, the ids of its registry, and the names of its twists."""

    tree: dict[str, Any]
    locations: list[str]
    twists: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Write both files, and return the path of the configuration."""
        rows = "".join(f'"{location.replace(chr(34), chr(34) * 2)}"\n' for location in self.locations)
        (folder / "locations.csv").write_text(f"location_id\n{rows}", encoding="utf-8")
        path = folder / "service.yaml"
        path.write_text(yaml.safe_dump(self.tree, allow_unicode=True, sort_keys=False), encoding="utf-8")
        return path


class Maker:
    """A generator of configurations from a seed. `prefix` returns a unique prefix for names of topics and services."""

    def __init__(self, seed: int, prefix: Callable[[], str], kafka: str, redis: str) -> None:
        self._random = random.Random(seed)
        self._prefix, self._kafka, self._redis = prefix, kafka, redis

    def next(self, twist: str | None = None) -> Drawn:
        """Draw the next configuration, with this twist only; "": without a twist; None: with random twists."""
        draw = self._random
        slot = draw.choice(list(SLOTS))
        locations = self._locations()
        ledger_partitions = draw.choice((1, 1, 1, 2, 3, 4))
        prefix = self._prefix()
        drawn = Drawn(
            {
                "service": {"name": prefix, "shards": ledger_partitions * draw.choice((1, 1, 2, 4, 5, 16))},
                "clock": self._clock(slot),
                "locations": {"file": "locations.csv"},
                "visits": {
                    "default_stay": draw.choice(("1ms", "15m", "1h", "90s", "30d")),
                    "accept_ahead": self._grid(slot, (0, 0, 1, 2, 50)),
                },
                "privacy": {"epsilon": LARGEST, "period": draw.choice(("1ms", "1s", "1d", "14d", "1y", "13h7m"))},
                "monitors": [
                    self._monitor(f"{name}{number}", slot, locations)
                    for number, name in enumerate(draw.choices(("stations", "A-b_", "0"), k=draw.choice((1, 1, 2, 3))))
                ],
                "kafka": self._servers(prefix, ledger_partitions),
                "redis": {"url": self._redis},
                "metrics": {"port": 0},
            },
            locations,
        )
        while twist is None and draw.random() < 0.3:
            self._twist(drawn, draw.choice(list(TWISTS)))
        if twist:
            self._twist(drawn, twist)
        return drawn

    def _clock(self, slot: str) -> dict[str, Any]:
        draw, length = self._random, SLOTS[slot] * 1_000
        tolerance = draw.choice((1, 10, min(1_000, length // 5)))
        delay = draw.choice((tolerance + 1, length // 2, length - 2 * tolerance - 1))
        clock = {"slot": slot, "origin": draw.choice(ORIGINS), "release_delay": f"{delay}ms"}
        return clock if tolerance == 1_000 else clock | {"tolerance": f"{tolerance}ms"}  # the default

    def _grid(self, slot: str, numbers: tuple[int, ...]) -> str:
        return f"{self._random.choice(numbers) * SLOTS[slot]}s"

    def _locations(self) -> list[str]:
        draw = self._random
        kind = draw.choice(("few", "few", "odd", "odd", "many", "long"))
        if kind == "few":
            return [f"place-{number}" for number in range(draw.choice((1, 2, 5)))]
        if kind == "odd":
            return [f"{odd}{number}" for number, odd in enumerate(draw.sample(ODD, 6))]
        count, width = (20_000, 10) if kind == "many" else (draw.choice((3_000, 9_000)), 240)
        return [f"{number:06}{draw.choice(string.ascii_letters) * width}" for number in range(count)]

    def _monitor(self, name: str, slot: str, locations: list[str]) -> dict[str, Any]:
        draw = self._random
        kind = draw.choice(("over_time", "at_times", "hot_spots", "dwell"))
        monitor: dict[str, Any] = {"name": name, "kind": kind, "epsilon": draw.choice(EPSILONS)}
        if kind == "over_time":
            return monitor | self._over_time(slot, locations)
        at = draw.sample(TIMES, draw.choice((0, 1, 2)))
        at += draw.sample(INSTANTS, draw.choice((0, 1, 3)))
        monitor |= {"at": at or ["18:00"], "reporting_horizon": draw.choice(("1d", "2d", "25h7m", "100d"))}
        if draw.random() < 0.9 or any("T" not in time for time in monitor["at"]):  # mostly given
            monitor["timezone"] = draw.choice(ZONES)
        if kind == "hot_spots":
            return monitor | {"top": draw.choice((1, 5, 10**12))}
        if kind == "dwell":
            return monitor | {"longest_visit": draw.choice(("1s", "2h")), "visits_per_person": draw.choice((1, 3))}
        bounds = {"at_least": {"epsilon": draw.choice(EPSILONS)}} if draw.random() < 0.5 else {}  # half
        return monitor | {"threshold": draw.choice((1, 20, 10**12)), **bounds}

    def _over_time(self, slot: str, locations: list[str]) -> dict[str, Any]:
        draw = self._random
        watched = draw.sample(locations, min(len(locations), draw.choice((1, 2, 7))))
        weighted: Any = {location: draw.choice((1, 2, 123_457, 9_876_541)) for location in watched}
        monitor = {
            "locations": draw.choice((watched, weighted)),
            "threshold": draw.choice((1, 20, 10**12)),
            "window": self._grid(slot, (1, 2, 336)),
        }
        return monitor if draw.random() < 0.5 else monitor | {"answers_per_window": draw.choice((1, 2, 3, 400))}  # half

    def _servers(self, prefix: str, ledger_partitions: int) -> dict[str, Any]:
        draw = self._random
        names = draw.sample(TOPICS, 3)
        topics = dict(zip(("visits", "alerts", "dead_letters"), (f"{prefix}.{name}" for name in names), strict=True))
        servers: dict[str, Any] = {"bootstrap_servers": [self._kafka], "topics": topics}
        if ledger_partitions > 1 or draw.random() < 0.5:  # half
            servers["partitions"] = {"visits": draw.choice((1, 3)), "alerts": ledger_partitions}
        if draw.random() < 0.5:  # half
            servers["replication_factor"] = 1
        return servers

    def _twist(self, drawn: Drawn, twist: str) -> None:
        """Change something that may be a problem; `check` decides whether it is one."""
        TWISTS[twist](self._random, drawn)
        drawn.twists.append(twist)


def _set(section: str, **choices: tuple[Any, ...]) -> Twist:
    """Return a twist that sets keys of a section to random values; "first" is the first monitor."""

    def twist(draw: random.Random, drawn: Drawn) -> None:
        place = drawn.tree["monitors"][0] if section == "first" else drawn.tree[section]
        place.update({key: draw.choice(values) for key, values in choices.items()})

    return twist


def _both(first: Twist, second: Twist) -> Twist:
    def twist(draw: random.Random, drawn: Drawn) -> None:
        first(draw, drawn)
        second(draw, drawn)

    return twist


def _name(end: Callable[[int], str]) -> Twist:
    """Return a twist that appends to the name of the service, given its length."""

    def twist(_: random.Random, drawn: Drawn) -> None:
        drawn.tree["service"]["name"] += end(len(drawn.tree["service"]["name"]))

    return twist


def _output(topic: Callable[[random.Random, str], str]) -> Twist:
    """Return a twist that renames the output topic, given the name of the input topic."""

    def twist(draw: random.Random, drawn: Drawn) -> None:
        drawn.tree["kafka"]["topics"]["alerts"] = topic(draw, drawn.tree["kafka"]["topics"]["visits"])

    return twist


def _delay_of_a_slot(_: random.Random, drawn: Drawn) -> None:
    drawn.tree["clock"]["release_delay"] = drawn.tree["clock"]["slot"]


def _same_place_twice(_: random.Random, drawn: Drawn) -> None:
    drawn.locations.append(drawn.locations[0])


def _many_places(_: random.Random, drawn: Drawn) -> None:
    drawn.locations += [f"{number:06}{'w' * 250}" for number in range(40_000)]


Twist = Callable[[random.Random, Drawn], None]
TWISTS: Final[dict[str, Twist]] = {
    "shards": _both(_set("service", shards=(5, 7, 4_095)), _set("kafka", partitions=({"visits": 2, "alerts": 2},))),
    "inputs": _set("kafka", partitions=({"visits": 10_000}, {"visits": 2**31}, {"visits": 10**12})),
    "many": _both(_set("service", shards=(4_096,)), _set("kafka", partitions=({"visits": 60, "alerts": 1},))),
    "release": _name(lambda _: "-release"),
    "fingerprint": _name(lambda _: "-0123456789abcdef"),
    "longest name": _name(lambda length: "n" * (100 - length)),
    "own topic": _output(lambda draw, _: draw.choice(("__consumer_offsets", "..", "__own"))),
    "collision": _output(lambda _, visits: visits.replace(".", "_")),
    "window": _set("first", window=("100y", "36500d", "1ms", "90m")),
    "horizon": _set("first", reporting_horizon=("100y", "1ms", "99y1ms")),
    "ahead": _set("visits", accept_ahead=("100y", "9999s")),
    "stay": _set("visits", default_stay=("100y",)),
    "period": _set("privacy", period=("100y",)),
    "stated": _set("privacy", epsilon=("1/1000000000000", "3")),
    "epsilon": _set("first", epsilon=("1/1000000000000", LARGEST)),
    "many answers": _set("first", answers_per_window=(5_000, 10**12)),
    "delay": _delay_of_a_slot,
    "unknown place": _set("first", locations=(["nowhere"],)),
    "same place twice": _same_place_twice,
    "many places": _many_places,
}
"""Possible problems of a configuration, by name."""
