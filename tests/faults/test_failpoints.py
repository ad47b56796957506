"""SIGKILL at every failpoint between two steps: the next start recovers, and nothing is lost or drawn twice.

After each kill the facts are compared, before a window evicts them. The last test judges all answers.
"""

from __future__ import annotations

import ast
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import monitor
from monitor.audit.findings import SIGNED, Findings
from monitor.audit.signatures import Signatures, read_public_key
from monitor.client.topic_consumer import Published, read_topic_id
from monitor.client.verification import Verification
from monitor.observe.failpoints import FAILPOINTS
from monitor.records.checkpoints import NOT_IN_THE_TREE
from monitor.records.signed_notes import read_signing_key
from tests.faults.facts import compare
from tests.faults.oracles import settle
from tests.faults.steps import RUN_FAILPOINTS
from tests.faults.town import FaultTown
from tests.kit.waiting import until

ROOT = Path(monitor.__file__).parent


def find_called_failpoints() -> list[str]:
    """Return the argument of every call of `failpoint` in the product; an argument that is no literal, as code."""
    calls = (
        node.args[0]
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "failpoint"
    )
    return [ast.literal_eval(name) if isinstance(name, ast.Constant) else ast.unparse(name) for name in calls]


def test_failpoint_list_matches_the_calls() -> None:
    """Every failpoint of the list is passed at exactly one line, and every call passes a listed one."""
    assert Counter(find_called_failpoints()) == Counter(FAILPOINTS)


# The passing to be killed at, so that an instance has answered a tick or two; 1 for all others. With two ledger
# partitions an instance appends four times before its first tick (twice an owner record, twice the last tick's bytes).
LATER = {
    "reader.polled": 4,
    "reader.accepted": 5,
    "reader.written": 6,
    "tick.closed": 2,
    "tick.read": 2,
    "tick.decided": 2,
}
LATER |= {"ledger.begun": 6, "ledger.queued": 6, "ledger.sent": 6, "ledger.committed": 5}


@pytest.mark.promise(28)
@pytest.mark.parametrize("name", RUN_FAILPOINTS)
def test_killed_instance_breaks_no_promise(name: str, module_town: FaultTown) -> None:
    """After a SIGKILL at the failpoint, no fact and no dead letter is missing or wrong.

    The instance that is killed at the next one recovers from this kill.
    """
    victim = module_town.start("--at", f"{name}:{LATER.get(name, 1)}:kill")
    assert victim.wait(40) == -signal.SIGKILL, victim.text[-2_000:]
    assert compare(module_town).broken == []


@pytest.mark.parametrize("name", ["reader.accepted", "ledger.sent"])
def test_stopped_instance_finishes_its_work(name: str, module_town: FaultTown) -> None:
    """After SIGTERM with a batch or a tick in hand, an instance finishes it and ends, and another one answers.

    first  ├── at the failpoint, waits ── SIGTERM ── finishes ──┤ exit code 0
    other                                                     ├── answers, with all visits ──
    """
    gate = module_town.folder / f"gate-{name}"
    first = module_town.start("--at", f"{name}:{LATER[name]}:hold", "--hold", str(gate))
    until(gate.with_name(f"{gate.name}.reached").exists, 40, "the failpoint is reached")
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(first.terminate)
        until(lambda: "SIGTERM: finishing the work in progress" in first.text, 20, "the signal is logged")
        gate.touch()
        assert ended.result() == 0, first.text[-2_000:]
    other = module_town.start()
    module_town.subscriber.wait_complete(60)
    assert compare(module_town).broken == []
    other.kill()


@pytest.mark.promise(30)
def test_zombie_wakes_after_takeover(module_town: FaultTown) -> None:
    """A zombie that wakes with old answers is fenced.

    zombie   ├────┤ SIGSTOP ............ ├─ SIGCONT
    other           ├─ takes over ────────────────────
    """
    zombie = module_town.start("--at", f"ledger.sent:{LATER['ledger.sent']}:stop")
    until(zombie.is_stopped, 40, "stopped at its place")
    other = module_town.start()
    module_town.subscriber.wait_tick(module_town.subscriber.wait_new())
    zombie.resume()
    module_town.subscriber.wait_complete()
    assert zombie.terminate() == 0
    other.kill()


@pytest.mark.promise(30)
def test_one_of_two_owners_is_fenced(module_town: FaultTown) -> None:
    """If two owners have drawn answers to one tick, the first owner is fenced and its answers are not published."""
    gate = module_town.folder / "gate"
    first = module_town.start("--at", f"ledger.begun:{LATER['ledger.begun']}:hold", "--hold", str(gate))
    until(gate.with_name("gate.reached").exists, 40, "answers are drawn")
    first.pause()
    other = module_town.start()
    until(lambda: all(f"owns ledger partition {n}" in other.text for n in (0, 1)), 40, "the second owns both")
    gate.touch()
    first.resume()
    module_town.subscriber.wait_new()
    assert first.terminate() == 0
    other.kill()


def find_unsigned(town: FaultTown) -> list[str]:
    """Verify all answers as a subscriber with the public key and as the audit does, and return what is wrong."""
    signer = read_signing_key((town.folder / "signing.key").read_text(encoding="utf-8"))
    with town.admin() as admin:
        topic_id = read_topic_id(admin, town.topics.alerts)
    verification, findings = Verification(signer.verifier, topic_id), Findings()
    signatures = Signatures([read_public_key(str(signer.verifier))], findings)
    records = [
        Published(tuple(record.headers), record.value, record.partition, record.offset, record.key)
        for record in town.records()
    ]
    for record in records:
        headers = {name: text or b"" for name, text in record.headers}
        signatures.take(topic_id, record.partition, headers, record.value or b"", whole=True)
    signed = {record.value for record in verification.check(records)}
    answers = [record for record in records if dict(record.headers)["ce_type"] not in NOT_IN_THE_TREE]
    unsigned = [str(record.key) for record in answers if record.value not in signed]
    return findings.listed[SIGNED] + ([verification.problem] if verification.problem else unsigned)


@pytest.mark.promise(22, 28, 45)
def test_promises_after_all_kills(module_town: FaultTown) -> None:
    """After all kills, every answer is right and signed, every visit has its fate, and no planted id leaks."""
    instance = module_town.start()
    module_town.subscriber.wait_complete()
    verdict = settle(module_town, instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0
    assert find_unsigned(module_town) == []
