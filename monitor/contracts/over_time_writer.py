"""Write the records of one `over_time` monitor at one tick.

Of the 500 bytes of such a record, only the location and the marks differ from place to place, and while a place is
paused, only the times differ from tick to tick. `make_over_time_record` encodes each record as a whole, which takes
20 µs. This module encodes the common bytes once per tick, and the end of a record once per answer, and takes 1 µs. The
tests check that both write the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from monitor.contracts.alerts import OVER_TIME, format_time, make_cloud_event_headers
from monitor.contracts.parameters import OverTime, Parameters
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, compute_p_value

_encode: Final = msgspec.json.Encoder().encode


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


class AnswerWriter:
    """A writer of the ends of one monitor's records. The argument `kind` of `write` is an index in `rules`."""

    def __init__(self, parameters: Parameters, rules: Sequence[OverTimeRule]) -> None:
        self._grid = parameters.grid
        self._rules = rules
        self._limits = [
            b'","threshold":%d,"epsilon":"%b","answers":'
            % (rule.threshold, format_epsilon(rule.answer_epsilon).encode())
            for rule in rules
        ]

    def write(self, kind: int, answer: OverTimeAnswer, marks: bytes) -> bytes:
        """Return the end of a record's value, from the status on. It does not depend on the tick.

        `marks` are those of the answer, as `encode_marks` writes them.
        """
        last = self._write_last(kind, answer)
        return b"".join((answer.status.encode(), self._limits[kind], marks, last, b"}"))

    def _write_last(self, kind: int, answer: OverTimeAnswer) -> bytes:
        """Return the fields that only some answers have."""
        if answer.noisy_count is not None:
            rule, noisy_count = self._rules[kind], answer.noisy_count
            chance = _encode(compute_p_value(rule.answer_epsilon, rule.threshold, noisy_count))
            return b',"noisy_count":%d,"count_at_most":%d,"p_value":%b' % (noisy_count, noisy_count, chance)
        if answer.resumes_at is not None:
            return b',"resumes_at":"%b"' % format_time(self._grid.as_of(answer.resumes_at)).encode()
        return b""


class OverTimeWriter:
    """A writer of the records of one monitor at one tick, each from its location and its end (`AnswerWriter`).

    `headers` are those of a record, with an empty ce_id.
    """

    def __init__(self, parameters: Parameters, monitor: OverTime, tick: int) -> None:
        grid = parameters.grid
        as_of, start = grid.as_of(tick), grid.start(parameters.find_window_start(monitor.window, tick))
        self._key = f"{monitor.name}/".encode()
        self._suffix = b"/%d" % tick
        self._begin = b'{"monitor":%b,"kind":"over_time","location_id":' % _encode(monitor.name)
        self._times = b',"tick":%d,"as_of":"%b","window_start":"%b","status":"' % (
            tick,
            format_time(as_of).encode(),
            format_time(start).encode(),
        )
        self.headers = make_cloud_event_headers(parameters.name, OVER_TIME, "", as_of)
        self.timestamp_ms = as_of // 1_000

    def write(self, answers: Iterable[tuple[str, bytes]]) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield the key, the value and the ce_id of each record, given its location and its end."""
        begin, times, prefix, suffix, join = self._begin, self._times, self._key, self._suffix, b"".join
        for location, end in answers:
            key = prefix + location.encode()
            yield key, join((begin, _encode(location), times, end)), key + suffix
