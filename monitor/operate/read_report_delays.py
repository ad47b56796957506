"""How late visits are reported, read from a file, and the share of them that an answer can count.

The file has the service's histogram `location_monitor_report_delay_seconds`, as an instance exposes it or as Prometheus
answers a query for it, or CSV with the columns `delay` (`7d`) and `share` (of all visits that are ever reported, `0.71`
or `71%`). A delay is the time from the end of a visit to its report.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from monitor.config.bounded_lines import BoundedLines
from monitor.config.csv_table import Table
from monitor.errors import DelaysError, DurationError
from monitor.kinds.report_delays import ReportDelays
from monitor.observe.prometheus_metric import PREFIX
from monitor.time.instants import SECOND, format_duration, parse_duration

METRIC: Final = f"{PREFIX}_report_delay_seconds"
HEADER: Final = ["delay", "share"]

_FORMS: Final = (
    f"the metric {METRIC} as an instance exposes it, the JSON of a query of Prometheus for {METRIC}_bucket, or CSV "
    f"with the header {','.join(HEADER)}"
)
_INFINITE: Final = "+Inf"
_SHARE: Final = re.compile(r"(\d{0,9}(?:\.\d{1,9})?)(%?)", re.ASCII)


def parse_share(text: str) -> Fraction | None:
    """Return a share that is written as `0.71` or `71%`; None if it has another form. It may be above 1."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or not match[1]:
        return None
    return Fraction(match[1]) / (100 if match[2] else 1)


def read_report_delays(path: Path) -> ReportDelays:
    """Return the delays in a file.

    Raises:
        DelaysError: the file is empty or has none of the three forms; a number is negative, a share is above 1, or
            longer delays have smaller numbers; the bucket of all visits is missing.
        FileFormatError: a quote of CSV is broken.
    """
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
        if not text:
            raise DelaysError(f"is empty: expected {_FORMS}")
        if text.startswith("{"):
            return _convert_buckets(_read_answer(text))
        if text.splitlines()[0].strip().startswith(HEADER[0]):
            return _read_shares(BoundedLines(path, io.StringIO(text, newline=""), lambda: len(text)))
        return _convert_buckets(_read_exposition(text))
    except (OSError, UnicodeDecodeError) as error:
        raise DelaysError(f"{path}: cannot be read ({type(error).__name__}): expected {_FORMS}.") from None
    except DelaysError as error:
        raise DelaysError(f"{path}: {error}.") from None


def _read_exposition(text: str) -> list[tuple[str, str]]:
    """Return the upper bound and the number of each bucket that an instance exposes."""
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError:
        raise DelaysError(f"cannot be read: expected {_FORMS}") from None
    samples = (sample for family in families for sample in family.samples)
    buckets = [(sample.labels.get("le"), str(sample.value)) for sample in samples if sample.name == f"{METRIC}_bucket"]
    if any(bound is None for bound, _ in buckets):
        raise DelaysError(f'has a bucket of {METRIC} without le="…": expected {_FORMS}')
    return [(str(bound), number) for bound, number in buckets]


def _read_answer(text: str) -> list[tuple[str, str]]:
    """Return the upper bound and the number of each bucket in the answer of Prometheus."""
    try:
        series = json.loads(text)["data"]["result"]
        return [(str(one["metric"]["le"]), str(one["value"][1])) for one in series]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise DelaysError(
            f"is not the answer of Prometheus to a query such as sum by (le) ({METRIC}_bucket): expected {_FORMS}"
        ) from None


def _convert_buckets(buckets: Iterable[tuple[str, str]]) -> ReportDelays:
    """Return the delays of cumulative buckets. Those of several instances with the same bound are added."""
    totals: dict[Fraction | None, Fraction] = {}
    for text, number in buckets:
        bound = None if text == _INFINITE else _read_number(text, text)
        totals[bound] = totals.get(bound, Fraction(0)) + _read_number(number, text)
    if not totals:
        raise DelaysError(f"has no bucket of {METRIC}: expected {_FORMS}")
    if None not in totals:
        raise DelaysError(f'has no bucket le="{_INFINITE}", which counts all visits: expected all buckets')
    visits = totals.pop(None)
    finite = sorted((bound, total) for bound, total in totals.items() if bound is not None)
    names = [f'le="{float(bound):g}"' for bound, _ in finite]
    _require_rising([*(total for _, total in finite), visits], [*names, f'le="{_INFINITE}"'])
    if not visits:
        raise DelaysError("has counted no visit yet: wait until visits have been reported")
    if not finite:
        raise DelaysError(f'has only the bucket le="{_INFINITE}": expected all buckets')
    delays = tuple(int(bound * SECOND) for bound, _ in finite)
    return ReportDelays(delays, tuple(total / visits for _, total in finite))


def _read_number(text: str, bound: str) -> Fraction:
    try:
        number = Fraction(str(float(text)))  # a float bounds the exponent
    except ValueError:
        number = Fraction(-1)
    if number < 0:
        raise DelaysError(f'bucket le="{bound}" has the number {text}: expected a number from 0 on')
    return number


def _read_shares(lines: BoundedLines) -> ReportDelays:
    table = Table(lines)
    if [name.strip() for name in table.header] != HEADER:
        raise DelaysError(f"has the header {','.join(table.header)}: expected {','.join(HEADER)}")
    rows = [row for row in table.read_rows(lambda cells: len(cells) == len(HEADER)) if row.cells]
    if not rows:
        raise DelaysError("has no line after the header: expected lines such as 7d,71%")
    known = [_read_line(*row) for row in rows]
    names = [f"line {row.line}" for row in rows]
    for (before, _), (delay, _), name in zip(known, known[1:], names[1:], strict=False):
        if delay <= before:
            raise DelaysError(f"{name}: the delay {format_duration(delay)} is not longer than the one before it")
    _require_rising([share for _, share in known], names)
    return ReportDelays(tuple(delay for delay, _ in known), tuple(share for _, share in known))


def _read_line(number: int, row: Sequence[str]) -> tuple[int, Fraction]:
    if len(row) != len(HEADER):
        raise DelaysError(f"line {number} has {len(row)} columns: expected a delay and a share, such as 7d,71%")
    try:
        delay = parse_duration(row[0].strip())
    except DurationError as error:
        raise DelaysError(f"line {number}: {error}") from None
    share = parse_share(row[1])
    if share is None or share > 1:
        raise DelaysError(f"line {number}: the share is {row[1].strip()}: expected 0 to 1, such as 0.71 or 71%")
    return delay, share


def _require_rising(numbers: Sequence[Fraction], names: Sequence[str]) -> None:
    for before, number, first, name in zip(numbers, numbers[1:], names, names[1:], strict=False):
        if number < before:
            raise DelaysError(
                f"{name} has a smaller number ({float(number):g}) than {first} ({float(before):g}): expected "
                "cumulative numbers, of all visits up to each delay"
            )
