"""`location-monitor audit` on topics: once, or with `--follow` as they grow.

With `--follow` a process takes turns of the follower, with health, metrics and a log line for each change of state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from kafka.errors import KafkaError, for_code

from monitor import audit
from monitor.audit.compare_ticks import Run
from monitor.audit.follow_topic import Follower
from monitor.audit.live.config_files import ConfigFiles, list_configs
from monitor.audit.live.metrics import AuditMetrics
from monitor.audit.live.result_file import ResultFile
from monitor.audit.topic_reader import Sources, TopicChangedError, UnreadableTopicError
from monitor.config.load import load_config
from monitor.config.secret_values import read_cosigner
from monitor.config.whole_config import Config
from monitor.errors import UnreachableError, UsageError
from monitor.kafka.connections import KafkaConnections, build_kafka_connections
from monitor.kafka.kafka_python_3_0.fetcher import FetchState, read_leniently, return_resumed
from monitor.kafka.kafka_python_3_0.log_ends import Leader, read_log_ends
from monitor.observe.health import Endpoint, Health
from monitor.time.clock import SystemClock
from monitor.time.instants import parse_since

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The options of `audit --follow`."""

    output_only: bool = False
    port: int | None = None
    """None for `auditor.port`."""
    since: str | None = None
    """A time of RFC 3339."""
    result: Path | None = None
    """The file for the public page, if any."""


def audit_topics(config_files: Sequence[Path], environ: Mapping[str, str]) -> audit.AuditReport:
    """Recount the topics. A configuration may be a file or a folder.

    Raises:
        AuditError: a configuration or a topic cannot be read.
        UnreachableError: Kafka does not answer.
    """
    files = list_configs(config_files)
    config = load_config(files[0], environ)
    kafka = build_kafka_connections(config.kafka, config.service.name)
    with closing(KafkaTopics(partial(_open, kafka.create_admin))) as facts:
        sources = _make_sources(config, kafka, facts)
        try:
            return audit.audit_topics(files, sources)
        except UnreadableTopicError as error:
            if isinstance(error.__cause__, Exception):  # an error of Kafka
                raise UnreachableError(sources.explain(error.__cause__)) from error
            raise


def follow_topics(
    config_files: Sequence[Path],
    environ: Mapping[str, str],
    options: FollowOptions,
    stop: threading.Event,
    signals: Callable[[], AbstractContextManager[None]],
) -> None:
    """Judge what is published until `stop` is set, with metrics and health on a port.

    Raises:
        AuditError: a configuration cannot be read, or the configurations have different slots.
        UsageError: `since` is not a time, the port is in use, `result` cannot be written, or both `result` and
            `output_only` are given.
    """
    if options.result is not None and options.output_only:
        raise UsageError("--result states what was compared with the input, so leave out --output-only")
    config, files = load_config(list_configs(config_files)[0], environ), ConfigFiles(config_files)
    result = None if options.result is None else _open_result(options.result, config)
    if config.auditor.cosign_key_file is not None and result is None:
        log.warning("auditor.cosign_key_file is not used: the file of --result would have the cosignatures")
    kafka = build_kafka_connections(config.kafka, config.service.name)
    metrics, health = AuditMetrics(), Health()
    facts = KafkaTopics(partial(_open, kafka.create_admin))
    sources = _make_sources(config, kafka, facts, output_only=options.output_only)
    run = Run(ends=False, since=parse_since(options.since), now=SystemClock().now)
    process = AuditProcess(files, sources, run, metrics, health, result=result)
    port, key = (config.auditor.port, "auditor.port") if options.port is None else (options.port, "--metrics-port")
    endpoint = Endpoint(config.auditor.host, port, metrics.registry, health, key)
    log.info("metrics and health are served on port %d", endpoint.port)
    try:
        with signals():
            process.run(stop)
    finally:
        endpoint.close()
        facts.close()


def _open_result(path: Path, config: Config) -> ResultFile:
    cosigner = read_cosigner(config.auditor, config.signing)
    if cosigner is not None:
        log.info("checkpoints are cosigned; the public key is %s", cosigner.cosigner_key)
    return ResultFile(path, cosigner)


def _make_sources(config: Config, kafka: KafkaConnections, facts: KafkaTopics, *, output_only: bool = False) -> Sources:
    topics = config.kafka.topics
    open_consumer = partial(_open, kafka.create_consumer)

    def open_output(**settings: str) -> Any:
        return return_resumed(open_consumer(**settings))

    def open_input(**settings: str) -> Any:
        return read_leniently(open_consumer(**settings), FetchState(tries=1))

    def explain(error: Exception) -> str:
        return str(error) if isinstance(error, ConnectionError) else str(kafka.make_unreachable_error(error))

    source = None if output_only else open_input
    return Sources(topics.alerts, open_output, facts.read_topic_id, facts.log_ends, topics.visits, source, explain)


def _open(create: Callable[..., Any], **settings: str) -> Any:
    """Open a client. Raise ConnectionError for UnreachableError, because the audit does not know this error."""
    try:
        return create(**settings)
    except UnreachableError as error:
        raise ConnectionError(str(error)) from error


_T = TypeVar("_T")

_NO_SUCH_TOPIC: Final = 3


class KafkaTopics:
    """The topics as an admin client describes them. It needs only to read, and is reopened after an error.

    `open_admin` opens an admin client of kafka-python.

    Raises:
        KafkaError, OSError: (any method) Kafka does not answer, or refuses.
    """

    def __init__(self, open_admin: Callable[[], Any]) -> None:
        self._open = open_admin
        self._client: Any = None

    def read_topic_id(self, name: str) -> str:
        """Return the id of a topic; empty if there is no such topic."""
        return str(self._call(lambda: self._describe(name).get("topic_id", "")))

    def log_ends(self, name: str) -> Mapping[int, int]:
        """Return the offset after the last record of each partition; nothing if there is no such topic.

        Before these ends are also records that a consumer does not see yet: records of an open transaction or after its
        start, and records that followers have not copied.
        """
        return self._call(lambda: self._read_ends(name))

    def close(self) -> None:
        """Close the admin client."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(KafkaError, OSError):
                client.close()

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            if self._client is None:
                self._client = self._open()
            return operation()
        except (KafkaError, OSError):
            self.close()
            raise

    def _describe(self, name: str) -> Mapping[str, Any]:
        (described,) = self._client.describe_topics([name])
        code = described["error_code"]
        if code == _NO_SUCH_TOPIC:
            return {}
        if code:
            raise for_code(code)(f"topic {name}")
        found: Mapping[str, Any] = described
        return found

    def _read_ends(self, name: str) -> Mapping[int, int]:
        leaders = {
            partition["partition_index"]: Leader(partition["leader_id"], partition["leader_epoch"])
            for partition in self._describe(name).get("partitions", ())
        }
        return read_log_ends(self._client, name, leaders) if leaders else {}


LOOP: Final = "audit"
PAUSE_SECONDS: Final = 0.5

_CUT_OFF: Final = (
    'the input cannot be read: %s. Bytes, form, pauses and ε of new answers are checked, but whether "safe" and the '
    "bounds are true is not known. They are compared as soon as the input can be read"
)
_INCOMPLETE: Final = (
    "some of the last ticks could not be judged completely: they are partial, unproven or unjudged "
    "(location_monitor_audit_ticks_total)"
)


class AuditProcess:
    """The process of `audit --follow`. It runs a follower; if a topic is re-created, another one.

    Args:
        files: the configurations. If they change, everything is read and judged again, as after a restart.
        sources: how to read the topics.
        run: what of the run is audited.
        metrics, health: receive the state after each turn.
        result: the file that states what was proven, if any.
    """

    def __init__(
        self,
        files: ConfigFiles,
        sources: Sources,
        run: Run,
        metrics: AuditMetrics,
        health: Health,
        result: ResultFile | None = None,
    ) -> None:
        self._files = files
        self._sources = replace(sources, alive=lambda: health.report_alive(LOOP, self._reason))
        self._reason = "starting"
        self._run = run
        self._metrics = metrics
        self._health = health
        self._result = result
        self._logged = ("", "")
        health.expect(LOOP)

    def run(self, stop: threading.Event) -> None:
        """Judge what is published until `stop` is set."""
        while not stop.is_set():
            follower = Follower(self._files.configs, self._sources, self._run)
            if self._result is not None and follower.signed is not None:
                follower.signed.signatures.expect(self._result.cosigned)
            self._metrics.restart()
            self._metrics.describe(self._files.configs, compares_input=self._sources.open_input is not None)
            try:
                self._follow(follower, stop)
            except TopicChangedError as error:
                log.warning("%s: it was re-created, and is read from its beginning", error)
            finally:
                follower.close()

    def _follow(self, follower: Follower, stop: threading.Event) -> None:
        """Let a follower judge until `stop` is set, or until the configurations change."""
        while not stop.is_set():
            if self._files.reread():
                log.info("the configuration was changed: everything is read and judged again, as after a restart")
                return
            more, failure = False, ""
            try:
                more = follower.take_turn()
            except UnreadableTopicError as error:
                failure = str(error)
            self._metrics.update(follower, self._files.configs)
            if failure:
                self._enter("no_output", failure)
            else:
                self._describe(follower, more=more)
            if not more:
                stop.wait(PAUSE_SECONDS)

    def _describe(self, follower: Follower, *, more: bool) -> None:
        if follower.cut_off:
            self._enter("cut_off", follower.cut_off)
        elif more or follower.delayed:
            self._enter("catching_up", follower.delayed or "catching up")
        else:
            reason = follower.unreported or ("" if follower.engine.complete else _INCOMPLETE)
            self._enter("judging", reason)
            if not reason:
                self._metrics.note_success(time.time())
            if self._result is not None and (proven := follower.proven_stretch) is not None:
                self._result.write(proven, follower.proven_notes)

    def _enter(self, state: str, reason: str) -> None:
        """Report a state, and why the auditor is not ready in it; the reason is empty if it is ready."""
        self._reason = reason
        self._health.report_alive(LOOP, reason)
        self._metrics.set_state(state)
        known = state, reason if state == "judging" else ""
        if state == "catching_up" or known == self._logged:
            return
        self._logged = known
        if state == "cut_off":
            log.warning(_CUT_OFF, reason)
        elif state == "no_output":
            log.warning("the output cannot be read, so nothing is checked: %s", reason)
        elif reason:
            log.warning("everything that was published has been read, but %s", reason)
        else:
            log.info("everything that was published has been judged")
