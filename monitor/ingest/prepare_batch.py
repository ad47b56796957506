"""Prepare the records of one poll: decode them, accept or refuse each visit, and return the batch to write."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from monitor.ingest.accept_visits import accept
from monitor.ingest.dead_letters import DeadLetter, Refusal
from monitor.ingest.decode_visits import decode_records
from monitor.ingest.poll_input import Fetched
from monitor.ingest.write_queue import Batch, count_delays
from monitor.kinds.facts_and_questions import OffsetRange
from monitor.kinds.parameters import Parameters
from monitor.store.hash_persons import PersonHasher
from monitor.time.instants import SECOND


def prepare_batch(parameters: Parameters, persons: PersonHasher, fetched: Sequence[Fetched]) -> Batch:
    """Return the facts and the dead letters of fetched records. The stamp of a record decides the fate of its visits.

    `persons`: hashes person ids.
    """
    began = time.perf_counter()
    values = [record.value for fetch in fetched for record in fetch.records]
    by_fetch = [fetch.stamps for fetch in fetched]
    stamps = np.concatenate(by_fetch)
    grid = parameters.grid
    accepted = accept(parameters, persons, decode_records(parameters, values), (stamps - grid.origin) // grid.length)
    letters = _address_refusals(accepted.refused, fetched)
    ranges = tuple(OffsetRange(fetch.partition, fetch.start, fetch.end) for fetch in fetched)
    newest = {fetch.partition: int(of.max()) / SECOND for fetch, of in zip(fetched, by_fetch, strict=True) if len(of)}
    oldest = int(stamps.min()) / SECOND if len(stamps) else None
    facts, fates, cut = (accepted.facts,), accepted.fates, accepted.cut
    delays = count_delays(stamps[accepted.record], accepted.left)
    return Batch(ranges, facts, fates, letters, len(values), began, delays, cut, oldest, newest)


def _address_refusals(refused: Sequence[Refusal], fetched: Sequence[Fetched]) -> tuple[DeadLetter, ...]:
    """Return a dead letter for each refusal, with the partition and the offset of its record."""
    if not refused:
        return ()
    origins = [(fetch.partition, record.offset) for fetch in fetched for record in fetch.records]
    return tuple(DeadLetter(refusal, *origins[refusal.record]) for refusal in refused)
