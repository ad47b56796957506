"""Reading speed by the number of visits per record."""

from __future__ import annotations

from typing import Final

from simulators.bench.bench import Bench
from simulators.bench.ingest import PLACES, Backlog, fill_topics, read_backlog
from simulators.bench.line import Measured, Target

_SIZES: Final = ((1, 100_000), (10, 500_000), (100, 1_000_000), (500, 2_000_000))
_QUICK_SIZES: Final = ((1, 500), (500, 2_000))
_GAIN: Final = "500 visits per record, in units of 1 visit per record"


class PerRecordLine:
    """A backlog of which every visit is stored, with 1 to 500 visits per record."""

    name = "visits-per-record"
    work = "Kafka to Redis, every visit stored, by visits per record"
    goal = "throughput shown; batches are read faster than single visits"
    targets = (Target(_GAIN, least=1),)

    def measure(self, bench: Bench) -> Measured:
        """Read a backlog for each number of visits per record."""
        rates = {}
        watched = bench.scale(PLACES, 1_000)
        for per_record, visits in bench.scale(_SIZES, _QUICK_SIZES):
            filled = fill_topics(bench, f"{self.name}-{per_record}", Backlog(visits, per_record, watched=watched))
            rates[per_record] = visits / read_backlog(bench, filled)
        figures = {f"{per_record} per record (visits/s)": rate for per_record, rate in rates.items()}
        return Measured({**figures, _GAIN: rates[500] / rates[1]})


LINES: Final = (PerRecordLine(),)
