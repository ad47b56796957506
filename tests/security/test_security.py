"""The service over TLS with users of few rights: it works with what is documented, and says what is amiss where not."""

from __future__ import annotations

import gc
import json
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.config import load_config, load_registry
from monitor.errors import UnreachableError
from monitor.ingest.reader import run_reader
from monitor.release.ledger import read_partition
from monitor.service import kafka_connections, redis_address, settings_of
from monitor.tools.embedded import EmbeddedKafka
from tests.security.rights import ALL_KAFKA_RIGHTS, KAFKA_RIGHTS, Right

# Pauses between tries grow to 30 s (the service), and within 16 s to 8 s (its release group) and 5 s (its reading).
_SETTLED_SECONDS = 20.0
_LOOKED_AT_SECONDS = 30.0
_SECONDS_A_LINE = 5.0


def _by_password(papers: Any, folder: Path, server: EmbeddedKafka, **other: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": [server.secure_bootstrap_servers],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": "city",
        "password_file": str(folder / "kafka.password"),
        "ca_file": papers.authority,
        **other,
    }


def _by_certificate(papers: Any, server: EmbeddedKafka, who: str | None) -> dict[str, Any]:
    certificate, key = (None, None) if who is None else papers.of(who)
    return {
        "bootstrap_servers": [server.secure_bootstrap_servers],
        "security_protocol": "SSL",
        "ca_file": papers.authority,
        "certificate_file": certificate,
        "key_file": key,
    }


def _redis(papers: Any, folder: Path, server: Any, **other: Any) -> dict[str, Any]:
    named = {"url": server.url, "username": "city", "password_file": str(folder / "redis.password")}
    return named | {"ca_file": papers.authority} | other


def _answers(server: EmbeddedKafka, topic: str = "safety-alerts") -> list[bytes]:
    plain = KafkaConnections((server.bootstrap_servers,))
    return [
        record.key
        for partition in range(4)
        for _offset, record in read_partition(plain, topic, partition)
        if b'"safe"' in record.value
    ]


def _letters(server: EmbeddedKafka) -> list[bytes]:
    plain = KafkaConnections((server.bootstrap_servers,))
    return [
        letter.value for partition in range(4) for _offset, letter in read_partition(plain, "dead-letters", partition)
    ]


def _no_secrets(run: Any, secrets: tuple[str, ...]) -> bool:
    return not any(secret in place for secret in secrets for place in (run.text, run.arguments))


@pytest.fixture(scope="module")
def published(
    guarded_city: Any,
    guarded_redis: Any,
    papers: Any,
    configure: Callable[..., Path],
    started: Callable[..., Any],
    secrets: tuple[str, ...],
    eventually: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """The service with the documented rights alone, until it has published; ended before others join its groups."""
    folder, server = tmp_path_factory.mktemp("published"), guarded_city.kafka
    kafka = _by_password(papers, folder, server, password_file=None)
    config = configure(folder, kafka, _redis(papers, folder, guarded_redis))
    with closing(KafkaConnections((server.bootstrap_servers,)).producer()) as producer:
        producer.send("visits", value=b"no visit").get(timeout=10)
    run = started(
        "run", "--config", str(config), "--verbose", environ={"LOCATION_MONITOR__KAFKA__PASSWORD": secrets[0]}
    )
    eventually(lambda: _answers(server) and _letters(server), deadline_seconds=120)
    assert _no_secrets(run, secrets)
    run.stop()
    return run


def test_the_service_publishes_over_tls_with_the_documented_rights_alone(
    published: Any, guarded_city: Any, secrets: tuple[str, ...]
) -> None:
    """SCRAM over TLS to Kafka, a user of the access list over TLS to Redis; the password comes by the environment."""
    assert _letters(guarded_city.kafka) == [b"no visit"]
    assert published.process.returncode == 0
    told = [line for line in published.text.splitlines() if " WARNING " in line or " ERROR " in line]
    assert [line for line in told if " monitor.operate.preflight: " not in line] == []  # it warns of a single broker


def test_a_client_certificate_lets_the_service_in(
    mutual_kafka: EmbeddedKafka,
    guarded_redis: Any,
    papers: Any,
    configure: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """Mutual TLS: topics are made, written and read as the service does it, with its own settings."""
    config = load_config(
        configure(tmp_path, _by_certificate(papers, mutual_kafka, "client"), _redis(papers, tmp_path, guarded_redis)),
        {},
    )
    connections = kafka_connections(config)
    with closing(connections.admin()) as admin:
        admin.create_topics({"mutual": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    with closing(connections.producer()) as producer:
        producer.send("mutual", value=b"seen").get(timeout=10)
    assert [record.value for _offset, record in read_partition(connections, "mutual", 0)] == [b"seen"]


def _lacks(right: Right) -> str:
    """Kafka does not say which transactional id; the line's beginning tells the ledger partition that it is for."""
    if right.kind == "transactional id":
        return rf"safety-alerts-\d cannot be appended to: {_KAFKA}{_NO_RIGHT}.*TransactionalIdAuthorizationFailedError"
    return rf"{_KAFKA}{_NO_RIGHT}.*{right.kind.title()}AuthorizationFailedError.*\b{right.resource('city', '')}\b"


_UNTRUSTED = r"its certificate is not trusted \(.*{}"
_KAFKA = r"Kafka at 127\.0\.0\.1:\d+ cannot be used: "
_NO_RIGHT = r"its user lacks a permission \("
_REDIS = r"Redis at 127\.0\.0\.1:\d+"
_SAID = {
    "kafka: authority of others": _KAFKA + _UNTRUSTED.format("unable to get local issuer certificate"),
    "kafka: another name": r"Kafka at localhost:\d+ cannot be used: " + _UNTRUSTED.format("Hostname mismatch"),
    "kafka: wrong password": _KAFKA
    + r"it (refused the login|closed the connection during the login): check kafka\.username",
    "kafka: wrong mechanism": _KAFKA + r".*sasl_mechanism",
    "kafka: no TLS": _KAFKA
    + r"it closed the connection: check that the port uses kafka\.security_protocol \(PLAINTEXT\)",
    "kafka: TLS where there is none": _KAFKA + "it does not use TLS on this port",
    "kafka: no certificate": _KAFKA + r"it ended the TLS handshake \(certificate required\)",
    "kafka: certificate of others": _KAFKA + r"it ended the TLS handshake \(.*(certificate|ca)",
    "kafka: nobody there": _KAFKA + ".*ECONNREFUSED",
    "redis: authority of others": _REDIS + " cannot be reached: " + _UNTRUSTED.format("certificate"),
    "redis: another name": r"Redis at localhost:\d+ cannot be reached: " + _UNTRUSTED.format("Hostname mismatch"),
    "redis: wrong password": _REDIS + ": it requires a user and a password, or refused them",
    "redis: TLS where there is none": _REDIS + " did not answer within 5 s",  # Redis waits for the rest of a command
    "redis: no password": _REDIS + ": it requires a user and a password, or refused them",
    "redis: nobody there": _REDIS + " cannot be reached: the connection was refused or lost",
    "redis: command not granted": _REDIS + r" refused the command zadd \(NOPERM\)",
    # Scripts write, and Redis does not say which of their commands it refused.
    "redis: command taken away": r"reading pauses for [0-9.]+ s: "
    + _REDIS
    + r" refused a command of a script \(NOPERM\)",
    **{f"kafka: {right} not granted": _lacks(right) for right in KAFKA_RIGHTS},
}


@pytest.fixture(scope="module")
def taken_away(
    published: Any,
    village: tuple[EmbeddedKafka, Callable[..., None]],
    guarded_redis: Any,
    papers: Any,
    configure: Callable[..., Path],
    started: Callable[..., Any],
    eventually: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """A service like the city that ran until its user in Redis lost a right; then a visit came."""
    folder, (server, redis_user) = tmp_path_factory.mktemp("taken-away"), village
    stored = _redis(papers, folder, guarded_redis, username="village")
    run = started("run", "--config", str(configure(folder, _by_password(papers, folder, server), stored, "village")))
    eventually(lambda: _answers(server, "village.safety-alerts"), deadline_seconds=120)
    redis_user("-zadd")
    visit = {"person_id": "p-1", "location_id": "inn", "arrived_at": datetime.now(UTC).isoformat()}
    with closing(KafkaConnections((server.bootstrap_servers,)).producer()) as producer:
        producer.send("village.visits", value=json.dumps(visit).encode()).get(timeout=10)
    return run


@pytest.fixture(scope="module")
def refused(
    taken_away: Any,
    hamlet: EmbeddedKafka,
    mutual_kafka: EmbeddedKafka,
    guarded_redis: Any,
    papers: Any,
    configure: Callable[..., Path],
    started: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, Any]]:
    """A service for each thing that may be amiss, all started at once: most of the time they wait to try again."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "wrong").write_text("planted-and-wrong", encoding="utf-8")
    server = hamlet
    port = server.secure_bootstrap_servers.rpartition(":")[2]

    def kafka(**other: Any) -> dict[str, Any]:
        return _by_password(papers, folder, server, **other)

    def stored(**other: Any) -> dict[str, Any]:
        return _redis(papers, folder, guarded_redis, **other)

    plain = {"bootstrap_servers": [server.secure_bootstrap_servers]}
    amiss: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "kafka: authority of others": (kafka(ca_file=papers.stranger), stored()),
        "kafka: another name": (kafka(bootstrap_servers=[f"localhost:{port}"]), stored()),
        "kafka: wrong password": (kafka(password_file=str(folder / "wrong")), stored()),
        "kafka: wrong mechanism": (kafka(sasl_mechanism="SCRAM-SHA-256"), stored()),
        "kafka: no TLS": (plain, stored()),
        "kafka: TLS where there is none": (kafka(bootstrap_servers=[server.bootstrap_servers]), stored()),
        "kafka: no certificate": (_by_certificate(papers, mutual_kafka, None), stored()),
        "kafka: certificate of others": (_by_certificate(papers, mutual_kafka, "impostor"), stored()),
        "kafka: nobody there": (kafka(bootstrap_servers=["127.0.0.1:9"]), stored()),
        "redis: authority of others": (kafka(), stored(ca_file=papers.stranger)),
        "redis: another name": (kafka(), stored(url=f"rediss://localhost:{guarded_redis.port}/0")),
        "redis: wrong password": (kafka(), stored(password_file=str(folder / "wrong"))),
        "redis: TLS where there is none": (kafka(), stored(url=f"rediss://127.0.0.1:{guarded_redis.plain_port}/0")),
        "redis: no password": (kafka(), stored(username=None, password_file=None)),
        "redis: nobody there": (kafka(), stored(url="rediss://127.0.0.1:9/0")),
        "redis: command not granted": (kafka(), stored(username="without-zadd")),
        **{
            f"kafka: {right} not granted": (
                kafka(username=right.lacked_by, sasl_mechanism="PLAIN"),
                stored(username="hamlet") if right.kind == "transactional id" else stored(),
            )
            for right in KAFKA_RIGHTS
        },
    }
    runs: dict[str, Any] = {"redis: command taken away": taken_away}
    assert {*amiss, *runs} == set(_SAID)
    for number, (what, (kafka_settings, redis_settings)) in enumerate(amiss.items()):
        place = folder / str(number)
        service = "hamlet" if "transactional id" in what else "city"
        config = configure(place, kafka_settings, redis_settings, service)
        for name in ("kafka.password", "redis.password"):
            (folder / name).write_bytes((place / name).read_bytes())
        runs[what] = started("run", "--config", str(config), "--verbose")
    yield runs
    for run in runs.values():
        run.process.terminate()


@pytest.mark.parametrize("what", _SAID)
def test_what_is_amiss_is_said_in_one_line_without_secrets(
    what: str,
    refused: Mapping[str, Any],
    secrets: tuple[str, ...],
    eventually: Callable[..., Any],
) -> None:
    """It names the server and the reason; it is tried again and again."""
    run, said = refused[what], re.compile(_SAID[what])
    eventually(lambda: len(said.findall(run.text)) >= 3, deadline_seconds=180)
    assert run.process.poll() is None
    assert "Traceback" not in run.text
    assert _no_secrets(run, (*secrets, "planted-and-wrong"))


@pytest.mark.timeout(400)
def test_what_is_amiss_is_said_ever_more_rarely(refused: Mapping[str, Any], eventually: Callable[..., Any]) -> None:
    """A while after it was said first: a line in five seconds at most, be it of which part of the service."""
    eventually(lambda: all(re.search(_SAID[what], run.text) for what, run in refused.items()), deadline_seconds=180)
    settled = {what: run.said_at(_SAID[what]) + _SETTLED_SECONDS for what, run in refused.items()}
    ends = {what: at + _LOOKED_AT_SECONDS for what, at in settled.items()}
    eventually(lambda: all(run.seconds > ends[what] for what, run in refused.items()), deadline_seconds=200)
    said = {what: run.lines_between(settled[what], ends[what]) for what, run in refused.items()}
    print(said)
    talkative = [what for what, lines in said.items() if lines > 1 + _LOOKED_AT_SECONDS / _SECONDS_A_LINE]
    assert not talkative, "\n".join(f"{what}: {said[what]} lines\n{refused[what].text}" for what in talkative)
    assert all(run.process.poll() is None for run in refused.values())


class _Slow:
    """Reading that takes long, and whose writing nobody takes: each second step fails."""

    def __init__(self, stop: threading.Event) -> None:
        self.steps, self.stop = 0, stop

    def step(self, _timeout_ms: int) -> bool:
        self.steps += 1
        self.stop.wait(0.3)  # longer than the first pauses, which so must not be what ends the trouble
        if self.steps % 2 == 0:
            raise UnreachableError("nobody takes it")
        return True

    def close(self) -> None:
        """Nothing to close."""


def test_pauses_grow_also_where_steps_that_go_well_take_long(
    caplog: pytest.LogCaptureFixture, eventually: Callable[..., Any]
) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=run_reader, args=(_Slow(stop), stop, lambda _waiting: None), daemon=True)
    with caplog.at_level(logging.WARNING, "monitor.ingest.reader"):
        thread.start()
        try:
            eventually(lambda: len(caplog.messages) >= 5, deadline_seconds=30)
        finally:
            stop.set()
            thread.join(10)
    assert [float(line.split()[3]) for line in caplog.messages[:5]] == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_other_commands_end_with_one_line_that_says_what_is_amiss(
    guarded_city: Any,
    guarded_redis: Any,
    papers: Any,
    configure: Callable[..., Path],
    started: Callable[..., Any],
    secrets: tuple[str, ...],
    tmp_path: Path,
) -> None:
    kafka = _by_password(papers, tmp_path, guarded_city.kafka, ca_file=papers.stranger)
    config = configure(tmp_path, kafka, _redis(papers, tmp_path, guarded_redis))
    run = started("topics", "--config", str(config))
    assert run.process.wait(60) == 1
    assert re.fullmatch(r"location-monitor: Kafka at \S+ cannot be used: its certificate is not trusted.*\n", run.text)
    assert not any(secret in run.text for secret in secrets)


def test_topics_are_made_with_the_documented_rights_and_with_none_less(
    guarded_city: Any,
    guarded_redis: Any,
    papers: Any,
    configure: Callable[..., Path],
    started: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """`topics --create`, each user for a service of its own name; all at once."""

    def create(user: str) -> Any:
        kafka = _by_password(papers, tmp_path / user, guarded_city.kafka, username=user, sasl_mechanism="PLAIN")
        config = configure(tmp_path / user, kafka, _redis(papers, tmp_path / user, guarded_redis), user)
        return started("topics", "--config", str(config), "--create")

    made = create("maker")
    refused = {right: create(right.lacked_by) for right in ALL_KAFKA_RIGHTS if right.create}
    assert len(refused) == 4
    assert made.process.wait(60) == 0, made.text
    for right, run in refused.items():
        assert run.process.wait(60) == 1, run.text
        kind = "TransactionalId" if right.kind == "transactional id" else "Topic"
        assert re.search(rf"its user lacks a permission \(.*{kind}AuthorizationFailedError", run.text), run.text
        assert len(run.text.splitlines()) == 1


def test_check_and_the_texts_of_settings_show_no_secret(
    papers: Any,
    configure: Callable[..., Path],
    started: Callable[..., Any],
    secrets: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """Passwords by URL, file and environment, and the key of person ids."""
    kafka_secret, redis_secret, key, _operators = secrets
    kafka = {
        "bootstrap_servers": ["localhost:9"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": "city",
    }
    config = configure(tmp_path, kafka, {"url": "rediss://localhost:9/0"})
    environ = {
        "LOCATION_MONITOR__KAFKA__PASSWORD": kafka_secret,
        "LOCATION_MONITOR__REDIS__URL": f"rediss://city:{redis_secret}@localhost:9/0",
    }
    loaded = load_config(config, environ)
    settings = settings_of(loaded, load_registry(loaded.locations.file), key.encode())
    shown = [f"{thing!r} {thing}" for thing in (loaded, settings, settings.kafka, redis_address(loaded))]
    for words in (("check",), ("check", "--json"), ("topics",)):
        run = started(*words, "--config", str(config), environ=environ)
        run.process.wait(60)
        shown.append(run.text)
    assert not [text for text in shown for secret in secrets if secret in text]


def test_no_key_of_person_ids_no_start(
    configure: Callable[..., Path], started: Callable[..., Any], tmp_path: Path
) -> None:
    """Exit 2 before any connection is made: nothing listens at these addresses."""
    config = configure(tmp_path, {"bootstrap_servers": ["localhost:9"]}, {"url": "redis://localhost:9/0"})
    (tmp_path / "person.key").unlink()
    run = started("run", "--config", str(config))
    assert run.process.wait(60) == 2
    assert "visits.person_key_file" in run.text
    assert "Create one:" in run.text


@pytest.fixture
def quiet_kafka() -> Iterator[None]:
    """Have kafka-python not log: each of its records of a failure holds the socket, for as long as pytest keeps it."""
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.mark.usefixtures("quiet_kafka")
def test_a_client_that_could_not_be_made_leaves_no_thread_behind(eventually: Callable[..., Any]) -> None:
    """kafka-python would leave one, with its sockets, at each try: a day without brokers would use all of them up."""
    away = KafkaConnections(("127.0.0.1:9",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the socket of a refused connection is left to the collector
        before = threading.active_count()
        with pytest.raises(UnreachableError, match="ECONNREFUSED"):
            away.admin()
        gc.collect()
    eventually(lambda: threading.active_count() <= before)
