"""A subscriber with the public key finds every attack on signed answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.client.topic_consumer import Published
from monitor.client.verification import Verification
from monitor.records.output_records import OutputRecord
from monitor.records.signed_notes import create_signing_key, read_public_key, read_signing_key
from tests.kit.signed import SIGNER, TOPIC_ID, make_answers, open_log, publish, sign

Ticks = list[list[OutputRecord]]
"""The records of each tick: two answers and a checkpoint."""


def make_ticks(count: int = 4, draw: int = 0) -> Ticks:
    log = open_log()
    return [sign(log, tick, draw) for tick in range(count)]


def verify(ticks: Ticks) -> tuple[Verification, list[bytes | None]]:
    """Return the verification of ticks, and the values that it let through."""
    verification = Verification(SIGNER.verifier, TOPIC_ID)
    signed = verification.check(publish(record for tick in ticks for record in tick))
    return verification, [record.value for record in signed]


def alter(record: OutputRecord, **headers: bytes) -> OutputRecord:
    """Return a record with other headers."""
    changed = tuple((name, headers.get(name, value)) for name, value in record.headers)
    return record._replace(headers=changed)


def _alter_answer(t: Ticks) -> Ticks:
    return [t[0], t[1], [t[2][0]._replace(value=b"2 1"), *t[2][1:]], t[3]]


def _alter_kind(t: Ticks) -> Ticks:
    return [t[0], t[1], [alter(t[2][0], ce_type=b"org.location-monitor.hot_spots"), *t[2][1:]], t[3]]


def _alter_id(t: Ticks) -> Ticks:
    return [t[0], t[1], [alter(t[2][0], ce_id=b"places/7/2"), *t[2][1:]], t[3]]


def _shift_lines(t: Ticks) -> Ticks:
    """Move the value's first line into the id: the bytes of the leaf stay the same."""
    first, rest = t[2][0], b"x\n"
    return [t[0], t[1], [alter(first, ce_id=dict(first.headers)["ce_id"] + b"\n" + rest), *t[2][1:]], t[3]]


def _drop_answer(t: Ticks) -> Ticks:
    return [t[0], t[1], t[2][1:], t[3]]


def _drop_tick(t: Ticks) -> Ticks:
    return [t[0], t[1], t[3]]


def _repeat_in_tick(t: Ticks) -> Ticks:
    return [t[0], t[1], [t[2][0], *t[2]], t[3]]


def _repeat_later(t: Ticks) -> Ticks:
    return [t[0], t[1], t[2], [t[1][0], *t[3]]]


def _repeat_other(t: Ticks) -> Ticks:
    """Repeat a tick, as a takeover does, with another answer in it."""
    return [t[0], t[1], [t[1][0]._replace(value=b"1 9"), *t[1][1:]], t[2]]


def _swap_answers(t: Ticks) -> Ticks:
    return [t[0], t[1], [t[2][1], t[2][0], t[2][2]], t[3]]


def _move_to_next_tick(t: Ticks) -> Ticks:
    return [t[0], [t[1][0], t[1][2]], [t[1][1], *t[2]], t[3]]


def _fork(t: Ticks) -> Ticks:
    """Show one subscriber, from tick 2 on, what the same key signed for others from tick 1 on."""
    log = open_log()
    other = [sign(log, tick, draw=min(tick, 1)) for tick in range(4)]
    return [t[0], t[1], other[2], other[3]]


def _begin_again(t: Ticks) -> Ticks:
    """Begin a new log at a tick that was signed already."""
    return [t[0], t[1], sign(open_log(), 1, draw=1), t[2]]


def _old_checkpoint(t: Ticks) -> Ticks:
    return [t[0], t[1], [*t[2][:2], t[0][2]], t[3]]


def _other_key(t: Ticks) -> Ticks:
    log = open_log(read_signing_key(create_signing_key("example.org/town")))
    for tick in range(2):
        log.sign(tick, 0, make_answers(tick))
    return [t[0], t[1], sign(log, 2), sign(log, 3)]


def _other_partition(t: Ticks) -> Ticks:
    log = open_log(partition=1)
    return [t[0], t[1], *(sign(log, tick) for tick in range(2, 4))]


def _other_tree(t: Ticks) -> Ticks:
    value = re.sub(rb'"hashes":\["....', b'"hashes":["AAAA', t[2][2].value)
    return [t[0], t[1], [*t[2][:2], t[2][2]._replace(value=value)], t[3]]


def _unsigned(t: Ticks) -> Ticks:
    return [t[0], t[1], t[2][:2], t[3][:2]]


ATTACKS: Final[dict[Callable[[Ticks], Ticks], str]] = {
    _alter_answer: "the answers of tick 2 are not those that were signed",
    _alter_kind: "the answers of tick 2 are not those",
    _alter_id: "the answers of tick 2 are not those",
    _shift_lines: "the answers of tick 2 are not those",
    _drop_answer: "the answers of tick 2 are not those",
    _drop_tick: "a tick between 1 and 3 is missing",
    _repeat_in_tick: "the answers of tick 2 are not those",
    _repeat_later: "the answers of 1970-01-01T01:00:00Z have no checkpoint",
    _repeat_other: "the answers of tick 1 are not those",
    _swap_answers: "the answers of tick 2 are not those",
    _move_to_next_tick: "the answers of tick 1 are not those",
    _fork: "a tick between 1 and 2 is missing",
    _begin_again: "tick 1 is signed after tick 1",
    _old_checkpoint: "the answers of tick 0 are not those",
    _other_key: "not signed by example.org/town",
    _other_partition: "not signed by example.org/town for this partition",
    _other_tree: "not signed by example.org/town",
    _unsigned: "the answers of 1970-01-01T02:00:00Z have no checkpoint",
}
"""Attacks on ticks 0 to 3, and what a subscriber reports."""


@pytest.mark.promise(45)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
def test_attack_is_found(attack: Callable[[Ticks], Ticks]) -> None:
    """Nothing that was not signed is let through, and the subscriber reports what is wrong."""
    true = {record.value for tick in make_ticks() for record in tick}
    verification, values = verify(attack(make_ticks()))
    assert ATTACKS[attack] in verification.problem
    assert set(values) <= true


_FILE: Final = Path(__file__).parents[2] / "docs" / "vectors" / "signed.json"
VECTORS: Final[dict[str, dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", VECTORS)
def test_vector_of_an_attack(name: str) -> None:
    """The client lets through what a vector for other languages expects, and reports a problem if it does."""
    vector = VECTORS[name]
    verification = Verification(read_public_key(vector["public_key"]), vector["topic_id"])
    signed = verification.check(
        Published(
            tuple((f"ce_{name}", record[name].encode()) for name in ("id", "type", "time")),
            record["value"].encode(),
            record["partition"],
        )
        for record in vector["records"]
    )
    assert [(dict(record.headers)["ce_id"] or b"").decode() for record in signed] == vector["shown"]
    assert bool(verification.problem) == vector["problem"]


def test_signed_answers_pass() -> None:
    """All answers of signed ticks pass, also if a takeover repeats a tick."""
    ticks = make_ticks()
    verification, values = verify([*ticks[:2], ticks[1], *ticks[2:]])
    assert not verification.problem
    assert values == [record.value for tick in ticks for record in tick[:2]]


def test_beginning_in_the_middle() -> None:
    """A subscriber that begins later lets answers through from the first checkpoint on, which may be repeated."""
    ticks = make_ticks()
    verification, values = verify([ticks[1][1:], ticks[1], *ticks[2:]])
    assert not verification.problem
    assert values == [record.value for tick in ticks[2:] for record in tick[:2]]


def test_answers_before_signing_are_not_shown() -> None:
    """Answers from before the service signed do not pass, and are no attack."""
    log = open_log()
    verification, values = verify([make_answers(0), make_answers(1), sign(log, 2)])
    assert not verification.problem
    assert values == [record.value for record in make_answers(2)]


def test_fork_is_found_by_comparison() -> None:
    """Two subscribers of forks that never meet have different checkpoints of one tick."""
    one, other = verify(make_ticks())[0], verify(make_ticks(draw=1))[0]
    assert not one.problem + other.problem
    origin, _, _, tick = one.checkpoints[0].splitlines()
    assert other.checkpoints[0].startswith(f"{origin}\n")
    assert tick.split()[:2] == other.checkpoints[0].splitlines()[3].split()[:2]
    assert one.checkpoints != other.checkpoints


def test_new_log_is_followed() -> None:
    """A new log, which a lost ledger or a new key begins, is verified from its beginning."""
    log = open_log()
    verification, values = verify([*make_ticks(2), sign(log, 2), sign(log, 3)])
    assert not verification.problem
    assert len(values) == 8
