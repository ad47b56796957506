"""`location-monitor audit` on topics: once, or with `--follow` as they grow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from monitor import audit
from monitor.audit.compare_ticks import Run
from monitor.audit.live.config_files import ConfigFiles, list_configs
from monitor.audit.live.metrics import AuditMetrics
from monitor.audit.live.process import AuditProcess
from monitor.audit.live.result_file import ResultFile
from monitor.audit.live.topic_facts import KafkaTopics
from monitor.audit.topic_reader import Sources, UnreadableTopicError
from monitor.config.load import load_config
from monitor.config.secret_values import read_cosigner
from monitor.config.whole_config import Config
from monitor.errors import UnreachableError, UsageError
from monitor.kafka.connections import KafkaConnections, build_kafka_connections
from monitor.kafka.kafka_python_3_0.fetcher import FetchState, read_leniently, return_resumed
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
