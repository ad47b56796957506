"""Write the records of one `over_time` monitor at one tick.

Of the 500 bytes of such a record, only the location and the marks differ from place to place. `alerts.over_time_record`
encodes each record as a whole, which takes 20 µs. This module encodes the common bytes once per tick, and takes 2 µs.
The tests check that both write the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from monitor.contracts.alerts import OVER_TIME, cloud_event_headers, format_time
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, p_value
from monitor.public.parameters import OverTime, Parameters

NO_MARKS: Final = b"[]"

_encode: Final = msgspec.json.Encoder().encode


Written = tuple[bytes, bytes, tuple[tuple[str, bytes], ...], int]
"""A record as bytes: key, value, headers, and the timestamp in milliseconds, which is the as_of of its tick."""


def encode_marks(marks: Sequence[Mark]) -> bytes:
    """Return the field `answers` of a record."""
    return _encode(
        [
            {
                "tick": mark.tick,
                "noisy_count": mark.noisy_count,
                "epsilon": format_epsilon(mark.epsilon),
                "until": mark.until,
            }
            for mark in marks
        ]
    )


class OverTimeWriter:
    """Writes the records of one monitor at one tick. A record's rule is passed as its number in `rules`."""

    def __init__(self, parameters: Parameters, monitor: OverTime, rules: Sequence[OverTimeRule], tick: int) -> None:
        grid = parameters.grid
        as_of, start = grid.as_of(tick), grid.start(parameters.window_start(monitor.window, tick))
        self._grid = grid
        self._rules = rules
        self._key = f"{monitor.name}/".encode()
        self._suffix = b"/%d" % tick
        self._begin = b'{"monitor":%b,"kind":"over_time","location_id":' % _encode(monitor.name)
        self._times = b',"tick":%d,"as_of":"%b","window_start":"%b","status":"' % (
            tick,
            format_time(as_of).encode(),
            format_time(start).encode(),
        )
        self._limits = [
            b'","threshold":%d,"epsilon":"%b","answers":'
            % (rule.threshold, format_epsilon(rule.answer_epsilon).encode())
            for rule in rules
        ]
        self._headers = cloud_event_headers(parameters.name, OVER_TIME, "", as_of)
        self._timestamp_ms = as_of // 1_000

    def write(self, answers: Iterable[tuple[str, int, OverTimeAnswer, bytes]]) -> Iterator[Written]:
        """Yield the record of each answer.

        Each answer comes with its location, the number of its rule, and its marks as `encode_marks` writes them. The
        bytes after the location are encoded only if the answer differs from the one before.
        """
        specversion, _, source, ce_type, time, content_type = self._headers
        begin, prefix, suffix, timestamp_ms = self._begin, self._key, self._suffix, self._timestamp_ms
        last: tuple[OverTimeAnswer, int] | None = None
        rest = b""
        for location, kind, answer, marks in answers:
            if last is None or answer is not last[0] or kind != last[1]:
                last, rest = (answer, kind), self._encode_rest(kind, answer, marks)
            key = prefix + location.encode()
            headers = (specversion, ("ce_id", key + suffix), source, ce_type, time, content_type)
            yield key, b"".join((begin, _encode(location), rest)), headers, timestamp_ms

    def _encode_rest(self, kind: int, answer: OverTimeAnswer, marks: bytes) -> bytes:
        """Return the bytes of a record's value after the location."""
        last = self._encode_last(kind, answer)
        return b"".join((self._times, answer.status.encode(), self._limits[kind], marks, last, b"}"))

    def _encode_last(self, kind: int, answer: OverTimeAnswer) -> bytes:
        """Return the fields that only some answers have."""
        if answer.noisy_count is not None:
            rule, noisy_count = self._rules[kind], answer.noisy_count
            chance = _encode(p_value(rule.answer_epsilon, rule.threshold, noisy_count))
            return b',"noisy_count":%d,"count_at_most":%d,"p_value":%b' % (noisy_count, noisy_count, chance)
        if answer.resumes_at is not None:
            return b',"resumes_at":"%b"' % format_time(self._grid.as_of(answer.resumes_at)).encode()
        return b""
