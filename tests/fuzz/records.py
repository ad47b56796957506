"""Generated strange records: hypothesis creates parts, which are mixed with good visits, then flipped, cut and spliced.

Each record knows the visits that must count: those that another JSON parser than the service's still finds unchanged in
the record (`GeneratedRecord.expected`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from monitor.audit.visits import parse_visits

FRAMING: Final = ("byte_order_mark", "cloudevents", "confluent", "connect")
"""What may be around the JSON of a record."""

WATCHED: Final = ("inn", "bath", "駅")
SLOT: Final = 10
"""The slot in which everything is reported; slots have one hour, from 2026-01-01T00:00Z."""

_ARRIVALS: Final = (
    "2026-01-01T10:00:00Z",
    "2026-01-01T09:59:59.999999Z",
    "2026-01-01T19:10:00+09:00",
    "2026-01-01T10:59:59Z",
    1_767_261_599_999_999,
)
_DEPARTURES: Final = ("2026-01-01T10:59:59Z", 1_767_265_200_000_000, "2031-01-01T00:00:00-03:30", None)
_DELETIONS: Final = ("true", True)
_NO_DELETIONS: Final = ("false", False, None, 1, 1.0, "TRUE", [True])
_SNIPPETS: Final = (
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\n",
        b"\x00",
        b"\xff",
        b"\xc2\x85",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
    ),
    *(
        b"\\u0000",
        b"\\ud800",
        b"\\udc00\\ud800",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"-0",
        b"null",
        b'"visits":[],',
        b"\xef\xbb\xbf",
        b"\0\0\0\0\7",
        b'{"schema":null,"payload":',
        b'"specversion":"1.0","data":',
    ),
    *(
        b'"person_id":"x",',
        b'"left_at":null,',
        b'"__deleted":"true",',
        b"T24:00:00Z",
        b"0000-00-00",
        b"9" * 40,
        b"[" * 220 + b"]" * 220 + b",",
        b'{"visits":[{}]}',
    ),
)

_KEYS = st.sampled_from(["person_id", "location_id", "arrived_at", "left_at", "visits", "batch_id", "app", ""])
_TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["p", "inn", "attic", "\x7f", "\x85", "é" * 129, "a" * 257, "2026-01-01", "24:00"]),
    st.sampled_from([*_ARRIVALS, "2026-01-01T13:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.9999999Z"]),
    st.datetimes(timezones=st.timezones()).map(lambda when: when.isoformat()),
)
_SCALARS = st.one_of(_TEXTS, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=8,
)
_ITEMS = st.one_of(
    _JSON,
    st.fixed_dictionaries(
        {"person_id": _TEXTS, "location_id": _TEXTS, "arrived_at": _TEXTS}, optional={"left_at": _SCALARS}
    ),
    st.dictionaries(_KEYS, _SCALARS, max_size=5),
)
_ENVELOPES = st.dictionaries(st.one_of(_KEYS, st.text(max_size=3)), _JSON, max_size=3)


@dataclass(frozen=True)
class Seeds:
    """The output of hypothesis: items of a batch, envelopes of a batch, and whole records."""

    items: list[Any]
    envelopes: list[dict[str, Any]]
    values: list[Any]


def make_seeds(count: int) -> Seeds:
    """Return `count` items, envelopes and records, the same in every run."""
    seeds = Seeds([], [], [])

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_ITEMS, _ENVELOPES, _JSON)
    def gather(item: Any, envelope: dict[str, Any], value: Any) -> None:
        seeds.items.append(item)
        seeds.envelopes.append(envelope)
        seeds.values.append(value)

    gather()
    return seeds


class Expected(NamedTuple):
    """The number of fates of a record, and its planted visits that must count: (location, person)."""

    fates: int
    kept: list[tuple[str, str]]


@dataclass(frozen=True)
class GeneratedRecord:
    """A record's value, the good visits planted in it, and whether it is unchanged."""

    value: bytes | None
    planted: list[dict[str, Any]]
    untouched: bool

    def expected(self) -> Expected:
        """Return the expected fates, by the parser of the audit, which shares no code with the service."""
        visits = parse_visits(self.value)
        if visits is None:
            assert not (self.untouched and self.planted)
            return Expected(1, [])
        kept = [visit for visit in self.planted if visit in visits]
        assert not self.untouched or len(kept) == len(self.planted)
        return Expected(len(visits), [(visit["location_id"], visit["person_id"]) for visit in kept])


class RecordGenerator:
    """An endless generator of records, from seeds and a random seed."""

    def __init__(self, seeds: Seeds, seed: int) -> None:
        self._seeds = seeds
        self._draw = random.Random(seed)
        self._people = 0
        self._before = b"{}"
        self._shapes: list[Callable[[], GeneratedRecord]] = [
            *[self._good] * 3,
            *[self._mixed] * 5,
            *[self._changed] * 10,
            *[self._strange] * 2,
        ]

    def records(self, count: int) -> Iterator[GeneratedRecord]:
        """Yield further records."""
        for _ in range(count):
            yield self._draw.choice(self._shapes)()

    def _visit(self) -> dict[str, Any]:
        draw = self._draw
        self._people += 1
        visit: dict[str, Any] = {
            "person_id": f"good-{self._people}",
            "location_id": draw.choice(WATCHED),
            "arrived_at": draw.choice(_ARRIVALS),
        }
        if draw.random() < 0.8:
            visit["left_at"] = draw.choice(_DEPARTURES)
        if draw.random() < 0.05:
            visit["__deleted"] = draw.choice(_NO_DELETIONS)
        if draw.random() < 0.1:
            visit["app"] = draw.choice(self._seeds.values)
        return visit

    def _text(self, value: Any) -> bytes:
        """Return a value as JSON in any of the framings."""
        draw = self._draw
        framing = draw.choice(("plain", "plain", "plain", "event of envelope", *FRAMING))
        if framing in {"connect", "event of envelope"}:
            value = {"schema": draw.choice(self._seeds.values), "payload": value}
        if framing in {"cloudevents", "event of envelope"}:
            value = {"id": draw.choice(self._seeds.values), "specversion": "1.0", "data": value}
        head = {"byte_order_mark": b"\xef\xbb\xbf", "confluent": b"\0" + draw.randbytes(4)}.get(framing, b"")
        return (
            head
            + json.dumps(
                value,
                ensure_ascii=draw.random() < 0.5,
                separators=draw.choice([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]),
            ).encode()
        )

    def _good(self) -> GeneratedRecord:
        visits = [self._visit() for _ in range(self._draw.choice([1, 1, 2, 5]))]
        record = visits[0] if len(visits) == 1 else {"batch_id": "b", "visits": visits}
        return GeneratedRecord(self._text(record), visits, untouched=True)

    def _mixed(self) -> GeneratedRecord:
        """Return good visits among strange ones, in a strange envelope."""
        draw, seeds = self._draw, self._seeds
        good = [self._visit() for _ in range(draw.choice([0, 1, 1, 2]))]
        items = [*good, *(draw.choice(seeds.items) for _ in range(draw.choice([1, 1, 2, 4])))]
        if draw.random() < 0.1:
            items.append({**self._visit(), "__deleted": draw.choice(_DELETIONS)})
        draw.shuffle(items)
        return GeneratedRecord(self._text({**draw.choice(seeds.envelopes), "visits": items}), good, untouched=True)

    def _changed(self) -> GeneratedRecord:
        """Return a changed record: bytes flipped, inserted or removed, or with another record's end."""
        generated = self._good() if self._draw.random() < 0.6 else self._mixed()
        value = generated.value or b""
        for _ in range(self._draw.choice([1, 1, 1, 2, 6])):
            value = self._change(value)
        self._before = generated.value or b""
        return GeneratedRecord(value, generated.planted, untouched=False)

    def _change(self, value: bytes) -> bytes:
        draw = self._draw
        at = draw.randrange(len(value) + 1)
        match draw.randrange(6):
            case 0:
                return value[:at] + bytes([draw.randrange(256)]) + value[at + 1 :]
            case 1:
                flipped = bytes([value[at] ^ 1 << draw.randrange(8)]) if at < len(value) else b""
                return value[:at] + flipped + value[at + 1 :]
            case 2:
                return value[:at] + draw.choice(_SNIPPETS) + value[at:]
            case 3:
                return value[:at] + value[at + draw.randrange(1, 12) :]
            case 4:
                return value[:at] + self._before[draw.randrange(len(self._before) + 1) :]
            case _:
                return value[:at] + value[max(0, at - draw.randrange(40)) :]

    def _strange(self) -> GeneratedRecord:
        draw = self._draw
        value = draw.choice(
            [None, b"", draw.randbytes(draw.randrange(40)), self._text(draw.choice(self._seeds.values))]
        )
        return GeneratedRecord(value, [], untouched=True)
