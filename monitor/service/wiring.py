"""The composition root: it creates and connects all components, for `run`, `replay` and `demo`.

A service is created for fixed topics, a fixed fingerprint and a fixed number of ledger partitions (Q). When one of them
changes, the service is stopped and another one is created. Recovery is the same as a start.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from monitor.config.secret_values import read_redis_password, read_sentinel_password
from monitor.config.valid_config import ValidConfig
from monitor.config.whole_config import Config
from monitor.errors import InsecureNoiseError, MonitorError
from monitor.ingest.dead_letters import DeadLetterTopic
from monitor.ingest.poll_input import InputLog
from monitor.ingest.reading_thread import Reader, run_reader
from monitor.ingest.startup_readiness import Readiness
from monitor.kafka.connections import KafkaConnections, build_kafka_connections
from monitor.kafka.groups import name_input_group, name_release_group
from monitor.kafka.kafka_python_3_0.batches import Bounds
from monitor.kafka.kafka_python_3_0.fetcher import FetchState
from monitor.kafka.topics import LOG_APPEND_TIME, TopicNeeds, list_topic_needs
from monitor.kinds.parameters import Parameters
from monitor.observe.health import Health
from monitor.observe.logs import log_unexpected
from monitor.observe.update_service_metrics import Metrics
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SystemEntropy
from monitor.records.signed_notes import Signer
from monitor.service.preflight import Preflight
from monitor.stop_signals import FINISH_SECONDS
from monitor.store.fingerprint import compute_fingerprint, compute_published_fingerprint
from monitor.store.hash_persons import PersonHasher
from monitor.store.redis_client import RedisAddress, RedisUser, create_client
from monitor.store.redis_store import RedisStore
from monitor.ticks.check_payment_in_period import PeriodCheck, PeriodLimits
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.loop import TickLoop
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.ticks.rollout import Candidate, DelayedMembership, compute_version
from monitor.ticks.shared_by_partitions import StoreClock, TickContext
from monitor.ticks.takeover import take_over
from monitor.time.clock import Clock
from monitor.time.instants import SECOND

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """A configuration that is ready for use: parameters, server addresses, and the key for person ids."""

    config: Config
    parameters: Parameters
    kafka: KafkaConnections
    redis: RedisAddress
    hasher: PersonHasher
    worst: Fraction  # the most that one person may pay in the period under this configuration alone
    needs: tuple[TopicNeeds, ...]
    """What the topics need (visits, alerts, dead letters). A replay replaces it, because its records have timestamps of
    another clock.
    """
    signer: Signer | None = None
    """The key that signs answers; only `run` sets it."""

    def compute_fingerprint(self, found: Preflight) -> str:
        """Return the fingerprint of this configuration's facts for the present input topic."""
        topic_id = found.topics[self.config.kafka.topics.visits].topic_id
        return compute_fingerprint(self.parameters, self.hasher.key_digest, topic_id)

    def compute_version(self, found: Preflight) -> str:
        """Return the version of this configuration, which does not depend on the person key."""
        topic_id = found.topics[self.config.kafka.topics.visits].topic_id
        return compute_version(self.parameters, compute_published_fingerprint(self.parameters, topic_id))


def prepare_settings(valid: ValidConfig, key: bytes, signer: Signer | None = None) -> Settings:
    """Prepare a configuration for use. This reads the password files, but opens no connection.

    Raises:
        ConfigError: (exit 2) a password file is wrong.
    """
    config = valid.config
    connections, address = build_kafka_connections(config.kafka, config.service.name), build_redis_address(config)
    needs = list_topic_needs(valid.parameters, config.kafka)
    hasher = PersonHasher(key)
    return Settings(config, valid.parameters, connections, address, hasher, valid.worst, needs, signer=signer)


def build_redis_address(config: Config) -> RedisAddress:
    """Return the address and the credentials of the configured Redis."""
    redis = config.redis
    has_credentials = read_redis_password(redis) is not None or redis.user is not None
    at_sentinels = redis.sentinel_password_file is not None
    files = {"ssl_ca_certs": redis.ca_file, "ssl_certfile": redis.certificate_file, "ssl_keyfile": redis.key_file}
    return RedisAddress(
        redis.address,
        RedisUser(redis.user, partial(read_redis_password, redis)) if has_credentials else None,
        redis.cluster,
        redis.sentinels or (),
        {name: str(path) for name, path in files.items() if path is not None},
        RedisUser(redis.sentinel_username, partial(read_sentinel_password, redis)) if at_sentinels else None,
    )


def create_noise() -> OneSidedNoise:
    """Return the noise source for published answers."""
    return OneSidedNoise(SystemEntropy())


def create_store(settings: Settings, found: Preflight, now: Callable[[], int] | None = None) -> RedisStore:
    """Return the store in Redis under the fingerprint of this configuration and this input topic.

    `now`: a clock in place of those of the servers, for a replay.
    """
    return RedisStore(settings.parameters, settings.compute_fingerprint(found), create_client(settings.redis), now)


def make_ledger_topic(settings: Settings, found: Preflight, seen_at: int) -> LedgerTopic:
    """Return the ledger and the input topic. `seen_at`: an instant at which the input topic existed."""
    topics = settings.config.kafka.topics
    visits, alerts = found.topics[topics.visits], found.topics[topics.alerts]
    return LedgerTopic(
        topics.alerts,
        alerts.topic_id,
        visits.topic_id,
        compute_published_fingerprint(settings.parameters, visits.topic_id),
        seen_at,
        visits.partitions,
    )


def _require_secure(noise: Noise) -> None:
    if not noise.secure:
        raise InsecureNoiseError(
            "the noise is seeded, so it could be removed from answers: publish with the operating system's entropy"
        )


class Service:
    """A running service: from `start` to `stop`, one thread reads the input and one publishes answers.

    `ended` is set when a thread ends. If the thread failed, `failure` is its error.

    Raises:
        InsecureNoiseError: (on creation) the noise is predictable.
        UnreachableError: (on creation) a server cannot be used now.
    """

    def __init__(
        self,
        settings: Settings,
        found: Preflight,
        store: RedisStore,
        clock: Clock,
        noise: Noise,
        metrics: Metrics,
        health: Health,
    ) -> None:
        _require_secure(noise)
        self._settings, self._found, self._store = settings, found, store
        self._clock, self._noise, self._metrics, self._health = clock, noise, metrics, health
        self._stop, self._wake = threading.Event(), threading.Event()
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        # This machine's clock may have been stepped since the checks, so the store's clock is read.
        self._input_seen_at = store.time()
        self._store_clock = StoreClock(clock.elapsed)
        self._store_clock.update(self._input_seen_at)
        self._dead_letters = self._create_dead_letters()
        self._readiness = Readiness(settings.kafka, settings.config.kafka.topics.visits, store)
        self._membership = self._create_membership()
        try:
            source = self._create_source()
        except BaseException:
            self._membership.close()
            raise
        self.reader = Reader(settings.parameters, source, store, settings.hasher, self._dead_letters, metrics)
        self.loop = self._create_loop(self.reader)
        self._threads = [
            threading.Thread(target=self._run, args=("reading", self._read), name="reading", daemon=True),
            threading.Thread(target=self._run, args=("release", self._release), name="release", daemon=True),
        ]

    def _create_membership(self) -> DelayedMembership:
        settings, parameters = self._settings, self._settings.parameters
        topic, group = settings.config.kafka.topics.alerts, name_release_group(parameters.name)
        version = compute_version(parameters, settings.compute_fingerprint(self._found))
        candidate = Candidate(group, version, parameters.grid.length / SECOND)
        return DelayedMembership(settings.kafka, topic, candidate, self._readiness, self._wake)

    def _create_source(self) -> InputLog:
        settings, topic = self._settings, self._settings.config.kafka.topics.visits
        name, topic_id = settings.parameters.name, self._found.topics[topic].topic_id
        group = name_input_group(name, settings.compute_fingerprint(self._found))
        found = self._found.topics[topic].settings
        by_brokers, bounds = found["message.timestamp.type"] == LOG_APPEND_TIME, Bounds(int(found["max.message.bytes"]))
        reading, read_before = FetchState(bounds, stamped_by_brokers=by_brokers), self._found.has_read(topic_id)
        return InputLog(settings.kafka, topic, group, name, topic_id, reading=reading, read_before=read_before)

    def _create_dead_letters(self) -> DeadLetterTopic:
        topics = self._settings.config.kafka.topics
        limit = int(self._found.topics[topics.dead_letters].settings["max.message.bytes"])
        return DeadLetterTopic(self._settings.kafka, topics.dead_letters, topics.visits, limit)

    def _create_loop(self, reader: Reader) -> TickLoop:
        settings, topics = self._settings, self._settings.config.kafka.topics
        parameters = settings.parameters
        ledger = make_ledger_topic(settings, self._found, self._input_seen_at)
        records = OwnerRecords(ledger, parameters, self._cautious_now)
        check = self._create_period_check(records)

        def own(partition: int) -> Owner:
            return take_over(
                settings.kafka, partition, records, self._noise, self._clock, check.end_takeover, settings.signer
            )

        context = TickContext(
            parameters,
            self._store,
            InputTopic(settings.kafka, topics.visits, ledger.input_topic_id, (ledger.topic, ledger.topic_id)),
            self._metrics,
            self._clock,
            reader.progressed,
            reader.tick_ends,
            store_clock=self._store_clock,
        )
        return TickLoop(context, own, self._membership, self.ledger_partitions)

    def _create_period_check(self, records: OwnerRecords) -> PeriodCheck:
        limits = PeriodLimits(self._settings.config.privacy.epsilon, self._settings.worst)
        reader = self._found.ledger_reader
        return PeriodCheck(self._settings.kafka, records, limits, reader, self.ledger_partitions)

    def _cautious_now(self) -> int:
        """Return the present instant, by a clock that is not ahead of the store's clock."""
        return self._store_clock.cap(self._clock.now())

    @property
    def ledger_partitions(self) -> int:
        """The number of ledger partitions that have shards (Q)."""
        return self._found.terms.partitions

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            self._health.expect(thread.name)
            thread.start()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except MonitorError as error:
            self.failure = error
            log.warning("the %s thread stopped: %s", name, error)
        except BaseException as error:  # noqa: BLE001  # `run` starts the service again
            self.failure = error
            log_unexpected(log, "the %s thread failed", name, error=error)
        finally:
            self.ended.set()

    def _read(self) -> None:
        def report_heartbeat(waiting: str) -> None:
            self._health.report_alive("reading", waiting or self._readiness.waiting)

        run_reader(self.reader, self._stop, report_heartbeat)

    def _release(self) -> None:
        def report_heartbeat(waiting: str) -> None:
            self._health.report_alive("release", waiting)

        self.loop.run(self._stop, self._wake, report_heartbeat)

    def stop(self) -> None:
        """Finish pending work within `FINISH_SECONDS`, leave both consumer groups, and close every connection."""
        self._stop.set()
        self._wake.set()
        deadline = time.monotonic() + FINISH_SECONDS
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        self.loop.close(max(0.0, deadline - time.monotonic()))
        self._membership.close()
        self._dead_letters.close()
        for thread in self._threads:
            self._health.forget(thread.name)
