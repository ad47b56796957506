"""Generated records through decoding and acceptance: no crash, no good visit lost, one fate each.

`make soak` sends a million others from a random seed, which is printed; FUZZ_SEED repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import pytest

from monitor.ingest.accept_visits import Accepted, accept
from monitor.ingest.decode_visits import Columns, decode_records
from monitor.kinds.parameters import Parameters
from monitor.service.wiring import Settings
from tests.fuzz.records import SLOT, Expected, RecordGenerator, Seeds, make_seeds
from tests.ingest.one_by_one import decode
from tests.kit.town import Town
from tests.store.packed import list_seen

pytestmark = pytest.mark.long

BATCH = 2_000
SAMPLED = 40  # one in this number of records is also read by the contract
DEFAULT, SOAK = 40_000, 1_000_000


def fuzz(town: Settings, maker: RecordGenerator, count: int) -> Counter[str]:
    """Decode and accept generated records, batch by batch; check each batch, and return the counts of fates."""
    parameters, totals = town.parameters, Counter[str]()
    records = maker.records(count)
    while batch := list(islice(records, BATCH)):
        values = [record.value for record in batch]
        columns = decode_records(parameters, values)
        accepted = accept(parameters, town.hasher, columns, np.full(len(values), SLOT, np.int64))
        totals["records"] += len(batch)
        totals["untouched"] += sum(record.untouched for record in batch)
        expected = [record.expected() for record in batch]
        totals += check_fates(expected, values, columns, accepted)
        totals["kept"] += check_kept(town, expected, accepted)
        totals["sampled"] += check_contract(parameters, values, columns)
    return totals


def check_fates(
    expected: Sequence[Expected], values: Sequence[bytes | None], columns: Columns, accepted: Accepted
) -> Counter[str]:
    """Check that each item of a record is a visit or one dead letter, and each unreadable record one dead letter."""
    fates = np.array([one.fates for one in expected])
    refused = np.array([refusal.record for refusal in columns.refused], np.int64)
    found = np.bincount(columns.record, minlength=fates.size) + np.bincount(refused, minlength=fates.size)
    wrong = np.flatnonzero(found != fates)
    assert wrong.size == 0, f"{values[wrong[0]]!r}: {found[wrong[0]]} fates, expected {fates[wrong[0]]}"
    assert sum(accepted.fates.values()) == fates.sum()
    places = {(refusal.record, refusal.index) for refusal in accepted.refused}
    assert len(places) == len(accepted.refused) == accepted.fates["dead_letter"]
    return Counter(accepted.fates)


def check_kept(town: Settings, expected: Sequence[Expected], accepted: Accepted) -> int:
    """Check that all planted visits that must count are among the facts."""
    ids = town.parameters.registry.ids
    facts = {(ids[fact.row], fact.person) for fact in list_seen(accepted.facts)}
    kept = [(location, person) for one in expected for location, person in one.kept]
    lost = [(location, person) for location, person in kept if (location, town.hasher(person)) not in facts]
    assert not lost, f"{lost[0]} and {len(lost) - 1} others were lost"
    return len(kept)


def check_contract(parameters: Parameters, values: Sequence[bytes | None], columns: Columns) -> int:
    """Check for a sample that bulk decoding equals decoding by the contract."""
    places = range(0, len(values), SAMPLED)
    rows: dict[int, list[tuple[int, str, int, int, int]]] = {place: [] for place in places}
    for n, record in enumerate(columns.record.tolist()):
        if record in rows:
            visit = (columns.persons[n], int(columns.row[n]), int(columns.arrived[n]), int(columns.left[n]))
            rows[record].append((int(columns.index[n]), *visit))
    refused: dict[int, list[object]] = {place: [] for place in places}
    for refusal in columns.refused:
        if refusal.record in refused:
            refused[refusal.record].append((refusal.index, refusal.fault))
    for place in places:
        decoded = decode(values[place])
        read = [
            (
                index,
                v.person_id,
                parameters.registry.rows.get(v.location_id, -1),
                v.arrived_at,
                v.arrived_at + parameters.default_stay if v.left_at is None else v.left_at,
            )
            for index, v in decoded.visits
        ]
        assert (rows[place], refused[place]) == (read, decoded.faults), values[place]
    return len(places)


@pytest.fixture
def town(make_town: Callable[[str, str, str], Town]) -> Settings:
    return make_town("town", "localhost:9092", "redis://localhost:6379/0").settings


@pytest.mark.promise(25, 26)
def test_random_records(town: Settings, seeds: Seeds) -> None:
    """No record changes the fate of another, and every visit has one fate.

    The 40,000 records are the same in every run.
    """
    totals = fuzz(town, RecordGenerator(seeds, 1), DEFAULT)
    print(dict(totals))
    assert totals["records"] == DEFAULT
    assert min(totals["applied"], totals["dead_letter"], totals["kept"]) > DEFAULT // 2
    assert totals["not_watched"] + totals["expired"] > 0


@pytest.mark.promise(26)
@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_million_random_records(town: Settings) -> None:
    """A million records have one fate per visit.

    They differ in each run: the seed is printed, and FUZZ_SEED repeats it.
    """
    seed = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(2**32)))
    print(f"FUZZ_SEED={seed}")
    print(dict(fuzz(town, RecordGenerator(make_seeds(1_000), seed), SOAK)))
