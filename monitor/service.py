"""The composition root: the one place where parts are made and wired, for `run`, `replay` and `demo` alike.

A service is made for one state of the world (topics, fingerprint, Q). When that changes, it is stopped and another one
is made: there is one way to start, and recovery is a start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import input_group, release_group
from monitor.brokers.membership import Membership
from monitor.config import Config, Location, read_kafka_password, read_redis_password
from monitor.config.charges import worst_case
from monitor.config.derive_parameters import derive_parameters
from monitor.errors import InsecureNoiseError, MonitorError
from monitor.ingest.batches import Bounds
from monitor.ingest.dead_letters import DeadLetterTopic
from monitor.ingest.reader import Reader, run_reader
from monitor.ingest.readiness import Readiness
from monitor.ingest.source import InputLog
from monitor.operate.health import Health
from monitor.operate.metrics import Metrics
from monitor.operate.preflight import Preflight
from monitor.privacy.noise import Noise, OneSidedNoise, SystemEntropy
from monitor.public.clock import Clock
from monitor.public.instants import SECOND
from monitor.public.parameters import Parameters
from monitor.release.context import ReleaseContext, SharedNoise
from monitor.release.input_topic import InputTopic
from monitor.release.joining import Candidate, DelayedMembership
from monitor.release.loop import ReleaseLoop
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.period_check import PeriodCheck, PeriodLimits
from monitor.release.version import version
from monitor.signals import Signal
from monitor.windows.facts import Windows
from monitor.windows.fingerprint import fingerprint, published_fingerprint
from monitor.windows.hashing import PersonHasher
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows

log = logging.getLogger(__name__)

JOIN_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Settings:
    """A configuration, ready for use: what is watched, where the servers are, and the secret for person ids."""

    config: Config
    parameters: Parameters
    kafka: KafkaConnections
    redis: RedisAddress
    hasher: PersonHasher
    worst: Fraction  # what one person may pay at most in the period, by the configuration alone

    def fingerprint(self, found: Preflight) -> str:
        """What this configuration's facts lie under, with the input topic that was found."""
        topic_id = found.topics[self.config.kafka.topics.visits].topic_id
        return fingerprint(self.parameters, self.hasher.key_digest, topic_id)


def settings_of(config: Config, locations: tuple[Location, ...], key: bytes) -> Settings:
    """Make a configuration ready for use. Reads the files of passwords; connects to nothing.

    Raises:
        ConfigError, OverspentError: (exit 2) with all that is wrong with the configuration.
    """
    worst = worst_case(config, locations)
    return Settings(
        config,
        derive_parameters(config, locations),
        kafka_connections(config),
        redis_address(config),
        PersonHasher(key),
        worst,
    )


def kafka_connections(config: Config) -> KafkaConnections:
    """How to talk to the configured Kafka."""
    kafka = config.kafka
    password = read_kafka_password(config.kafka)
    security: dict[str, object] = {"security_protocol": kafka.security_protocol}
    if kafka.uses_sasl:
        security |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.username,
            "sasl_plain_password": password.get_secret_value() if password else None,
        }
    if kafka.uses_tls:
        files = {"ssl_cafile": kafka.ca_file, "ssl_certfile": kafka.certificate_file, "ssl_keyfile": kafka.key_file}
        security |= {name: str(path) for name, path in files.items() if path is not None}
    return KafkaConnections(kafka.bootstrap_servers, security, f"location-monitor-{config.service.name}")


def redis_address(config: Config) -> RedisAddress:
    """How to talk to the configured Redis."""
    redis = config.redis
    password = read_redis_password(config.redis)
    return RedisAddress(
        redis.url.get_secret_value(),
        redis.username,
        password.get_secret_value() if password else None,
        str(redis.ca_file) if redis.ca_file else None,
        redis.cluster,
    )


def secure_noise() -> OneSidedNoise:
    """The noise that answers are published with."""
    return OneSidedNoise(SystemEntropy())


def redis_windows(settings: Settings, found: Preflight, clock: Clock) -> RedisWindows:
    """The windows in Redis, under the fingerprint of this configuration and this input topic."""
    simulated = clock.now if clock.simulated else None
    return RedisWindows(settings.parameters, settings.fingerprint(found), redis_client(settings.redis), simulated)


class Service:
    """A running service: a reading and a releasing thread, from `start` to `stop`.

    `failure` is what ended it from within, once `ended` is set: the world has changed, or it must not go on.

    Raises:
        InsecureNoiseError: (when made) the noise can be predicted.
        UnreachableError: (when made) a server cannot be used now.
    """

    def __init__(
        self,
        settings: Settings,
        found: Preflight,
        windows: Windows,
        clock: Clock,
        noise: Noise,
        metrics: Metrics,
        health: Health,
    ) -> None:
        if not noise.secure:
            raise InsecureNoiseError(
                "the noise is seeded, so answers could be stripped of it: publish with the operating system's entropy"
            )
        self._settings, self._found, self._windows = settings, found, windows
        self._clock, self._noise, self._metrics, self._health = clock, SharedNoise(noise), metrics, health
        self._stop, self._wake = threading.Event(), threading.Event()
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self._looked_at = self._public_time()
        self._dead_letters = self._make_dead_letters()
        topics = settings.config.kafka.topics
        self._readiness = Readiness(settings.kafka, topics.visits, windows)
        self._membership = self._make_membership()
        try:
            source = self._make_source()
        except BaseException:
            self._membership.close()
            raise
        self.reader = Reader(settings.parameters, source, windows, settings.hasher, self._dead_letters, metrics, clock)
        self.loop = self._make_loop(self.reader.progressed)
        self._threads = [
            threading.Thread(target=self._run, args=("reading", self._read), name="reading", daemon=True),
            threading.Thread(target=self._run, args=("release", self._release), name="release", daemon=True),
        ]

    def _public_time(self) -> int:
        """The present instant by the store's clock: this machine's may have been stepped since it was checked."""
        return self._windows.time()

    def _make_membership(self) -> Membership | DelayedMembership:
        """A replay runs alone, so it joins at once; an instance on the system's clock when it is its turn."""
        settings, parameters = self._settings, self._settings.parameters
        topic, group = settings.config.kafka.topics.alerts, release_group(parameters.name)
        if self._clock.simulated:
            return Membership(settings.kafka, topic, group, self._wake)
        own = version(parameters, settings.fingerprint(self._found))
        candidate = Candidate(group, own, parameters.grid.length / SECOND)
        return DelayedMembership(settings.kafka, topic, candidate, self._readiness, self._wake)

    def _make_source(self) -> InputLog:
        settings, topic = self._settings, self._settings.config.kafka.topics.visits
        name, topic_id = settings.parameters.name, self._found.topics[topic].topic_id
        group = input_group(name, settings.fingerprint(self._found))
        by_brokers = not self._clock.simulated
        bounds = Bounds(int(self._found.topics[topic].settings["max.message.bytes"]))
        return InputLog(settings.kafka, topic, group, name, topic_id, bounds=bounds, stamped_by_brokers=by_brokers)

    def _make_dead_letters(self) -> DeadLetterTopic:
        topics = self._settings.config.kafka.topics
        limit = int(self._found.topics[topics.dead_letters].settings["max.message.bytes"])
        return DeadLetterTopic(self._settings.kafka, topics.dead_letters, topics.visits, limit)

    def _make_loop(self, progressed: Signal) -> ReleaseLoop:
        topics = self._settings.config.kafka.topics
        input_id, ledger_id = self._found.topics[topics.visits].topic_id, self._found.topics[topics.alerts].topic_id
        place = LedgerPlace(
            topics.alerts,
            ledger_id,
            input_id,
            published_fingerprint(self._settings.parameters, input_id),
            self._looked_at,
            self._found.topics[topics.visits].partitions,
        )
        accounting = self._make_accounting(place, lambda: parts.store_clock.at_most(self._clock.now()))

        def take_over(partition: int) -> Owner:
            settings = self._settings
            return Owner(settings.kafka, place, partition, settings.parameters, self._noise, self._clock, accounting)

        parts = ReleaseContext(
            self._settings.parameters,
            self._windows,
            InputTopic(self._settings.kafka, topics.visits, input_id, (topics.alerts, ledger_id)),
            take_over,
            self._metrics,
            self._clock,
            progressed,
        )
        if not self._clock.simulated:
            parts.store_clock.hear(self._looked_at)
        return ReleaseLoop(parts, self._membership, self.ledger_partitions)

    def _make_accounting(self, place: LedgerPlace, now: Callable[[], int]) -> PeriodCheck:
        settings, found = self._settings, self._found
        limits = PeriodLimits(settings.config.privacy.epsilon, settings.worst)
        return PeriodCheck(
            settings.kafka, place, settings.parameters, limits, found.survey, self.ledger_partitions, now
        )

    @property
    def ledger_partitions(self) -> int:
        """Q: over how many ledger partitions the shards are spread."""
        return self._found.terms.partitions

    def start(self) -> None:
        """Begin to read and to release."""
        for thread in self._threads:
            self._health.expect(thread.name)
            thread.start()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except MonitorError as error:
            self.failure = error
            log.warning("%s ends: %s", name, error)
        except BaseException as error:
            self.failure = error
            log.exception("%s ends by a fault of this program", name)
            raise
        finally:
            self.ended.set()

    def _read(self) -> None:
        simulated = self._clock.simulated

        def alive(waiting: str) -> None:
            self._health.report_alive("reading", waiting or ("" if simulated else self._readiness.waiting))

        run_reader(self.reader, self._stop, alive)

    def _release(self) -> None:
        def alive(waiting: str) -> None:
            self._health.report_alive("release", waiting)

        self.loop.run(self._stop, self._wake, alive)

    def stop(self) -> None:
        """Finish what is under way, leave both groups, and let go of every connection."""
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(JOIN_SECONDS)
        self.loop.close()
        self._membership.close()
        self._dead_letters.close()
        for thread in self._threads:
            self._health.forget(thread.name)
