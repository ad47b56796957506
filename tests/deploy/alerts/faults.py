"""The real faults that the alerts are about. Each is a context manager: the fault ends when the block ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import redis
from kafka import TopicPartition

from monitor.kafka.groups import name_release_group
from monitor.ledger.read_ledger import read_partition
from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from tests.conftest import Eventually
from tests.deploy.alerts.runbooks import ROOT, read_shell_lines
from tests.deploy.alerts.site import LIMIT, SLOT_SECONDS, Service, Site
from tests.kit.processes import CLI

START_SECONDS: Final = 90.0
AHEAD_SLOTS: Final = 12
STALL_MS: Final = 7_000
STALL_EVERY_SECONDS: Final = 12.0  # the reader tries again every 10 s: more must not be stalled each time
MISSED_SLOTS: Final = 4


@contextmanager
def foreign_member(site: Site, eventually: Eventually) -> Iterator[None]:
    """Let a foreign consumer in the release group take one of two output partitions and decide nothing."""
    member = site.connections.create_member(name_release_group(site.name))
    member.subscribe([site.topic("alerts")])
    with closing(member), _repeat(lambda: member.poll(timeout_ms=100)):
        eventually(lambda: len(member.assignment()) == 1, 60)
        yield


@contextmanager
def full_store(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Let Valkey refuse writes for lack of memory, and report a visit that therefore stays unread."""
    with closing(redis.Redis.from_url(site.valkey.url)) as client:
        client.config_set("maxmemory", "1")
        site.report_now()
        try:
            yield
        finally:
            client.config_set("maxmemory", LIMIT)


@contextmanager
def frozen_store(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Freeze the process of Valkey: it keeps its connections, and answers nothing."""
    os.kill(site.valkey.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(site.valkey.pid, signal.SIGCONT)


@contextmanager
def stalling_store(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Let Valkey delay every write for seconds, again and again, while visits arrive."""
    with closing(redis.Redis.from_url(site.valkey.url)) as client:

        def stall() -> None:
            client.execute_command("CLIENT", "PAUSE", STALL_MS, "WRITE")  # type: ignore[no-untyped-call]  # redis-py gives it no types
            site.report_now()

        with _repeat(stall, STALL_EVERY_SECONDS):
            yield
        client.execute_command("CLIENT", "UNPAUSE")  # type: ignore[no-untyped-call]  # as above


@contextmanager
def stopped_service(site: Site, eventually: Eventually) -> Iterator[None]:
    """Stop the only instance. The fault ends when the command `run` of the runbook has started another one."""
    site.service.stop()
    try:
        yield
    finally:
        site.service = site.started(site.endless("absent"))
        eventually(site.ready, START_SECONDS)


@contextmanager
def other_store(site: Site, eventually: Eventually) -> Iterator[None]:
    """Start a second instance with another Valkey."""
    with EmbeddedValkey(ValkeySettings()) as other, _run_second(site, redis={"url": other.url}):
        eventually(lambda: site.fetch("second", "/metrics")[0] == 200, START_SECONDS)
        yield


@contextmanager
def other_key(site: Site, eventually: Eventually) -> Iterator[None]:
    """Start a second instance with another person key."""
    (site.folder / "other.key").write_text(os.urandom(32).hex(), encoding="utf-8")
    visits = site.tree["visits"]
    with _run_second(site, visits=visits | {"person_key_file": "other.key"}):
        eventually(lambda: site.fetch("second", "/metrics")[0] == 200, START_SECONDS)
        yield


@contextmanager
def lost_input(site: Site, eventually: Eventually) -> Iterator[None]:
    """Let records of the input expire while the only instance is down, then start it again."""
    site.report_now()
    eventually(lambda: site.query("sum(location_monitor_consumer_lag_records)") == [0], 60)
    site.began = time.monotonic()
    site.service.stop()
    site.report_now()
    place = TopicPartition(site.topic("visits"), 0)
    with closing(site.connections.create_consumer()) as consumer:
        end = consumer.end_offsets([place])[place]
    with closing(site.connections.create_admin()) as admin:
        admin.delete_records({place: end})
    site.service.start()
    yield


@contextmanager
def ledger_ahead(site: Site, eventually: Eventually) -> Iterator[None]:
    """Append an owner record of a tick that is a minute ahead to the ledger, and restart the service.

    The record is one of the service's own with a later tick, because one machine has only one clock.
    """
    site.service.stop()
    topic = site.topic("alerts")
    records = [record for _offset, record in read_partition(site.connections, topic, 0)]
    last = max(json.loads(record.value).get("tick") or 0 for record in records)
    owner = next(record for record in reversed(records) if record.key == b"owner")
    value = json.loads(owner.value) | {"tick": last + AHEAD_SLOTS}
    headers = [(name, text) for name, text in owner.headers if name != "ce_id"]
    headers.append(("ce_id", f"owner/0/{uuid.uuid4().hex}".encode()))
    with closing(site.connections.create_producer()) as producer:
        producer.send(topic, json.dumps(value).encode(), owner.key, headers=headers, partition=0).get(timeout=10)
    site.service.start()
    eventually(lambda: site.fetch("metrics", "/readyz")[0] != 0, START_SECONDS)
    yield


@contextmanager
def refused_visits(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Report visits of a place that the registry lacks."""
    now = datetime.now(UTC).isoformat()
    site.report(*({"person_id": f"p{n}", "location_id": "castle", "arrived_at": now} for n in range(5)))
    yield


@contextmanager
def stranger(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Let another program write to the output topic. The fault ends with the auditor that the runbook starts."""
    with closing(site.connections.create_producer()) as producer:
        producer.send(site.topic("alerts"), b"{}", b"walk/inn", partition=0).get(timeout=10)
    yield
    site.auditor.stop()
    site.auditor = site.started(site.endless("audit-finding"))


@contextmanager
def stopped_auditor(site: Site, eventually: Eventually) -> Iterator[None]:
    """Stop the auditor. The fault ends with the auditor that the runbook starts."""
    site.auditor.stop()
    try:
        yield
    finally:
        site.auditor = site.started(site.endless("auditor-absent"))
        eventually(lambda: site.ready("auditor"), START_SECONDS)


@contextmanager
def stopped_page(site: Site, eventually: Eventually) -> Iterator[None]:
    """Stop the page. The fault ends with the page that the runbook starts."""
    site.page.stop()
    try:
        yield
    finally:
        site.page = site.started(site.endless("page-absent"))
        eventually(lambda: site.ready("page_metrics"), START_SECONDS)


@contextmanager
def frozen_broker(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Freeze the process of Kafka: it keeps its connections, and answers nothing."""
    os.kill(site.kafka.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(site.kafka.pid, signal.SIGCONT)


@contextmanager
def unwritable_page(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Let the page's file with the states be a folder, so that it cannot be replaced, as on a full disk."""
    file = site.folder / "site" / "states.json"
    file.unlink()
    file.mkdir()
    try:
        yield
    finally:
        file.rmdir()


@contextmanager
def forged_answer(site: Site, eventually: Eventually) -> Iterator[None]:
    """Turn signing on, and append a false "safe" that nobody signed. The fault ends with the page of the runbook."""
    sign_answers(site, "signing.key", eventually)
    site.began = time.monotonic()
    forge_safe(site)
    yield
    site.page.stop()
    site.page = site.started(site.endless("an-answer-is-not-verified"))
    eventually(lambda: site.ready("page_metrics"), START_SECONDS)


def sign_answers(site: Site, key: str, eventually: Eventually) -> None:
    """Turn signing on, or change the key, with the steps of docs/operations.md. The page gets the public key."""
    (create,) = (line for line in read_key_commands() if line.endswith(f" {key}"))
    words = ["bash", "-c", create]
    made = subprocess.run(words, env=site.environ(), cwd=site.folder, capture_output=True, text=True, check=True)
    (public,) = (word for word in made.stdout.split() if word.count("+") >= 2)  # name+id+base64
    site.service.stop()
    site.tree["signing"] = {"key_file": key, "public_key": public}
    site.write()
    signed = count_checkpoints(site)
    site.service.start()
    eventually(site.ready, START_SECONDS)
    # Answers before the first checkpoint need not be signed, so a forged one among them is no problem.
    eventually(lambda: count_checkpoints(site) > signed, START_SECONDS)
    site.page.stop()
    site.page = site.started(Service(site.folder, "page", site.page_words))
    eventually(lambda: site.ready("page_metrics"), START_SECONDS)


def count_checkpoints(site: Site) -> int:
    """Return how many ticks of the places' partition are signed."""
    records = site.records()
    (partition,) = {record.partition for record in records if (record.key or b"").startswith(b"places/")}
    return sum(record.key == b"checkpoint" for record in records if record.partition == partition)


def read_key_commands() -> list[str]:
    """Return the commands that create signing keys."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    return [line for line in read_shell_lines(page) if line.startswith("location-monitor keygen --signing ")]


def forge_safe(site: Site) -> None:
    """Append a copy of the latest record about a place, with the status "safe"."""
    latest = [record for record in site.records() if (record.key or b"").startswith(b"places/inn")][-1]
    value = json.loads(latest.value)
    for name in ("resumes_at", "noisy_count", "count_at_most", "p_value"):
        value.pop(name, None)
    forged = json.dumps(value | {"status": "safe", "answers": []}).encode()
    with closing(site.connections.create_producer()) as producer:
        sent = producer.send(
            site.topic("alerts"), forged, latest.key, headers=list(latest.headers), partition=latest.partition
        )
        sent.get(timeout=10)


@contextmanager
def hanging_transaction(site: Site, _eventually: Eventually) -> Iterator[None]:
    """Let a producer leave a transaction open on the input, which hides all later visits."""
    name = f"hanging-{uuid.uuid4().hex}"
    producer = site.connections.create_producer(transactional_id=name, transaction_timeout_ms=600_000)
    visit = {"person_id": "bob", "location_id": "inn", "arrived_at": datetime.now(UTC).isoformat()}
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(site.topic("visits"), json.dumps(visit).encode()).get(timeout=10)
        try:
            yield
        finally:
            producer.abort_transaction()


@contextmanager
def wrong_configuration(site: Site, eventually: Eventually) -> Iterator[None]:
    """Restart the auditor with a configuration that is not in force; the runbook starts it with both."""
    _wait_for_past(site, eventually, "location_monitor_audit_ticks_total")
    right = site.config
    shutil.copy(right, site.folder / "earlier.yaml")
    site.config = site.write_other("changed.yaml", monitors=[site.tree["monitors"][0] | {"epsilon": "40"}])
    site.auditor.stop()
    site.auditor = site.started(Service(site.folder, "wrong", (CLI, "audit", "--follow", "--config", str(site.config))))
    try:
        yield
    finally:
        site.auditor.stop()
        site.auditor = site.started(site.endless("auditor-no-success"))
        site.config = right


@contextmanager
def lost_ticks(site: Site, eventually: Eventually) -> Iterator[None]:
    """Let no instance run for some slots. The ticks before the last closed one are then lost."""
    _wait_for_past(site, eventually, "location_monitor_audit_missing_ticks_total")
    site.service.stop()
    until = time.time() + MISSED_SLOTS * SLOT_SECONDS
    eventually(lambda: time.time() > until, 2 * MISSED_SLOTS * SLOT_SECONDS)
    site.service.start()
    eventually(site.ready, START_SECONDS)
    yield


def _wait_for_past(site: Site, eventually: Eventually, metric: str) -> None:
    """Wait until Prometheus knows the values of an hour ago, which the rules compare with: 30 s here."""
    eventually(lambda: site.query(f"{metric} offset 35s"), START_SECONDS)
    site.began = time.monotonic()


@contextmanager
def _run_second(site: Site, **sections: Any) -> Iterator[None]:
    """Run a second instance whose configuration differs in these sections."""
    config = site.write_other("second.yaml", metrics={"port": site.ports["second"]}, **sections)
    with Service(site.folder, "second", (CLI, "run", "--config", str(config))).running():
        yield


@contextmanager
def _repeat(action: Callable[[], object], every_seconds: float = 0.0) -> Iterator[None]:
    """Repeat an action in a thread."""
    leave = threading.Event()

    def work() -> None:
        while not leave.is_set():
            action()
            leave.wait(every_seconds)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        leave.set()
        thread.join()
