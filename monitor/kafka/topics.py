"""The three topics and their required settings, which are checked at start and set by `topics --create`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code

from monitor.errors import TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections, make_topic_refusal
from monitor.kinds.parameters import Parameters
from monitor.time.instants import DAY, MILLISECOND, format_duration

log = logging.getLogger(__name__)

FOREVER: Final = "-1"
LOG_APPEND_TIME: Final = "LogAppendTime"
MESSAGE_BYTES: Final = "max.message.bytes"
DEFAULT_RECORD_BYTES: Final = 1_000_000
LEDGER_BATCH_BYTES: Final = 128 * 1024
"""The batch size of the ledger's producer. `max.message.bytes` limits whole batches; its lowest value fits two."""

LEAST_MESSAGE_BYTES: Final = 2 * LEDGER_BATCH_BYTES
LEAST_REPLICAS: Final = 2
"""The number of replicas that must have an acknowledged record."""

_IN_SYNC: Final = "min.insync.replicas"
_SPARE: Final = LEAST_REPLICAS + 1  # the replicas needed to write to the topic while one broker is down
_NO_TOPIC: Final = UnknownTopicOrPartitionError.errno
_NO_ID: Final = ("", "None", str(UUID(int=0)))


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a topic: the value that `topics --create` sets, a test of a value, the expected value, and why."""

    key: str
    create: str
    suffices: Callable[[str], bool]
    expected: str
    why: str


@dataclass(frozen=True, slots=True)
class TopicNeeds:
    """The partitions and settings that one topic needs."""

    config_key: str
    topic: str
    partitions: int
    settings: tuple[Setting, ...]
    durable: bool = False  # whether the loss of an acknowledged record would break a guarantee
    tool_options: str = ""  # how Kafka's own tools reach the brokers (`format_tool_options`)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as Kafka describes it: its id, the number of partitions and of replicas of each, and its settings."""

    topic_id: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]


def require_exactly(key: str, value: str, why: str) -> Setting:
    """Return a setting that must have one value."""
    return Setting(key, value, lambda found: found == value, value, why)


def _require_at_least(key: str, least: int, create: int, why: str, shown: str) -> Setting:
    return Setting(key, str(create), lambda found: found == FOREVER or int(found) >= least, shown, why)


def _require_retention(least_us: int, why: str) -> Setting:
    least = -(-least_us // MILLISECOND)
    shown = f"at least {least} ({format_duration(least_us)}), or -1"
    return _require_at_least("retention.ms", least, least + DAY // MILLISECOND, why, shown)


_BY_TIME_ONLY: Final = (
    require_exactly("cleanup.policy", "delete", "compaction would delete records that still count"),
    require_exactly("retention.bytes", "-1", "retention by size would delete records that still count"),
    require_exactly("unclean.leader.election.enable", "false", "an unclean election loses acknowledged records"),
)


def format_tool_options(bootstrap_servers: Sequence[str], security_protocol: str = "PLAINTEXT") -> str:
    """Return the options with which Kafka's own tools reach the brokers, for messages.

    Unless the protocol is PLAINTEXT, the operator has to write the settings of TLS and the password into a file.
    """
    servers = f" --bootstrap-server {','.join(bootstrap_servers)}"
    return servers if security_protocol == "PLAINTEXT" else f"{servers} --command-config client.properties"


def format_alter_command(options: str, topic: str, key: str, value: object) -> str:
    """Return the command that changes a setting of a topic, in backquotes. `options`: of `format_tool_options`."""
    return f"`kafka-configs.sh{options} --alter --topic {topic} --add-config {key}={value}`"


def list_topic_needs(parameters: Parameters, kafka: Any) -> tuple[TopicNeeds, ...]:
    """Return the needs of the topics of a configuration: (visits, alerts, dead letters).

    `kafka` is the section of that name in the configuration.
    """
    slot = parameters.grid.length
    memory = (parameters.history_slots + parameters.max_lead + 2) * slot
    visits = (
        require_exactly(
            "message.timestamp.type", LOG_APPEND_TIME, "the broker's timestamp decides whether a visit counts"
        ),
        _require_retention(memory, "the facts of windows and reporting horizons are read again from this topic"),
    )
    spent = (parameters.history_slots + parameters.max_lead + parameters.period_slots) * slot
    alerts = (_require_retention(spent, "what one person has paid within a period is read from this topic"),)
    size = (_require_message_bytes(parameters),)
    topics, partitions = kafka.topics, kafka.partitions
    options = format_tool_options(kafka.bootstrap_servers, kafka.security_protocol)
    return (
        TopicNeeds(
            "kafka.topics.visits",
            topics.visits,
            partitions.visits,
            (*_BY_TIME_ONLY, *visits),
            durable=True,
            tool_options=options,
        ),
        TopicNeeds(
            "kafka.topics.alerts",
            topics.alerts,
            partitions.alerts,
            (*_BY_TIME_ONLY, *alerts, *size),
            durable=True,
            tool_options=options,
        ),
        TopicNeeds("kafka.topics.dead_letters", topics.dead_letters, partitions.alerts, (), tool_options=options),
    )


def _require_message_bytes(parameters: Parameters) -> Setting:
    """Return the required `max.message.bytes`, in which the largest possible answer must fit."""
    largest = parameters.largest_record
    least = max(largest, LEAST_MESSAGE_BYTES)
    enough = parameters.estimate_shards(DEFAULT_RECORD_BYTES)
    why = f"the largest answer may have {largest} bytes; with {enough} shards it would fit in 1 MB"
    return _require_at_least(MESSAGE_BYTES, least, max(least, 1_048_588), why, f"at least {least}")


def find_topics(admin: Any, names: Sequence[str], operation: str) -> dict[str, Any]:
    """Return the topics of these names that exist, as kafka-python describes them.

    `operation`: the permission that the user lacks if it may not see a topic.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    described = {topic["name"]: topic for topic in admin.describe_topics(list(names))}
    codes = {name: described[name]["error_code"] if name in described else _NO_TOPIC for name in names}
    for name, code in codes.items():
        if code not in (0, _NO_TOPIC):
            if code == TopicAuthorizationFailedError.errno:
                raise make_topic_refusal(name, operation)
            raise for_code(code)(f"topic {name}")
    return {name: described[name] for name, code in codes.items() if not code}


def describe_topics(admin: Any, names: Sequence[str]) -> dict[str, TopicDescription]:
    """Return the topics of these names that exist, with all their settings.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TopicError: a topic has no id, so a recreated topic of the same name could not be detected.
    """
    described = find_topics(admin, names, "Describe (granted with Read and with Write)")
    existing = list(described)
    if not existing:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in existing]
    settings = admin.describe_configs(resources, config_filter="all")["topic"]
    for name in existing:
        if not settings.get(name):  # every topic has settings; kafka-python hides the error
            raise make_topic_refusal(name, "DescribeConfigs")
        if str(described[name]["topic_id"]) in _NO_ID:
            raise TopicError(
                f"topic {name}: Kafka returned no topic ID, so a recreated topic could not be detected: expected Kafka "
                "3 or later with a matching metadata.version (inter.broker.protocol.version); upgrade the cluster"
            )
    return {
        name: TopicDescription(
            str(described[name]["topic_id"]),
            len(described[name]["partitions"]),
            min(len(partition["replica_nodes"]) for partition in described[name]["partitions"]),
            {key: str(entry["value"]) for key, entry in settings[name].items()},
        )
        for name in existing
    }


def list_problems(wanted: TopicNeeds, found: TopicDescription | None) -> list[str]:
    """Return the problems of a topic, each with the setting to change."""
    if found is None:
        missing = f"{wanted.config_key} is {wanted.topic!r}: there is no such topic"
        return [f"{missing}; create it with `location-monitor topics --create`"]
    return [
        f"{wanted.config_key} is {wanted.topic!r}, whose {setting.key} is {found.settings.get(setting.key)}: expected "
        f"{setting.expected}, because {setting.why}; change it with "
        f"{format_alter_command(wanted.tool_options, wanted.topic, setting.key, setting.create)}"
        for setting in wanted.settings
        if not setting.suffices(found.settings.get(setting.key, "0"))
    ]


def list_risks(wanted: Sequence[TopicNeeds], found: Mapping[str, TopicDescription]) -> list[str]:
    """Return a warning, with the remedy, for each topic that may lose acknowledged records if one disk fails."""
    return [
        f"{need.config_key} is {need.topic!r}, whose {reason}: an acknowledged record may be on one disk only, and may "
        f"be lost with this disk without notice; {remedy}"
        for need in wanted
        if need.durable
        for reason, remedy in _list_risks_of(need, found[need.topic])
    ]


def list_partition_changes(need: TopicNeeds, partitions: int) -> list[str]:
    """Return a warning if the configured number of output partitions is not the present one, which stays.

    `need`: the needs of the topic of alerts. `partitions`: those of its ledger.
    """
    if need.partitions == partitions:
        return []
    configured = f"kafka.partitions.alerts is {need.partitions}, and the ledger in {need.topic} has {partitions}"
    return [f"{configured}: expected {partitions}, which the first record of the ledger fixes; set the key to it"]


def _list_risks_of(need: TopicNeeds, found: TopicDescription) -> list[tuple[str, str]]:
    in_sync = int(found.settings.get(_IN_SYNC, "1"))
    if found.replicas < LEAST_REPLICAS:
        return [("partitions have one replica", "use three brokers and kafka.replication_factor 3")]
    if in_sync < LEAST_REPLICAS:
        change = format_alter_command(need.tool_options, need.topic, _IN_SYNC, LEAST_REPLICAS)
        return [(f"{_IN_SYNC} is {in_sync} with {found.replicas} replicas of a partition", f"change it with {change}")]
    return []


def check_topics(connections: KafkaConnections, wanted: Sequence[TopicNeeds]) -> dict[str, TopicDescription]:
    """Return the topics by name, after checking that each exists and has the right settings.

    Raises:
        TopicError: lists all problems of all topics.
        UnreachableError: Kafka does not answer.
    """
    return _require_settings(wanted, _describe(connections, wanted))


def check_existing_topics(connections: KafkaConnections, wanted: Sequence[TopicNeeds]) -> dict[str, TopicDescription]:
    """Return the topics that exist, by name, after checking that each has the right settings.

    Raises:
        TopicError: lists all problems of these topics.
        UnreachableError: Kafka does not answer.
    """
    found = _describe(connections, wanted)
    return _require_settings([need for need in wanted if need.topic in found], found)


def _describe(connections: KafkaConnections, wanted: Sequence[TopicNeeds]) -> dict[str, TopicDescription]:
    with connections.open_admin() as admin:
        return describe_topics(admin, [need.topic for need in wanted])


def _require_settings(wanted: Sequence[TopicNeeds], found: dict[str, TopicDescription]) -> dict[str, TopicDescription]:
    wrong = [problem for need in wanted for problem in list_problems(need, found.get(need.topic))]
    if wrong:
        raise TopicError("\n".join(wrong))
    return found


def create_topics(
    connections: KafkaConnections, wanted: Sequence[TopicNeeds], replication_factor: int | None
) -> list[str]:
    """Create the missing topics with the right settings; return their names.

    Raises:
        UnreachableError: Kafka cannot create them.
    """
    with connections.open_admin() as admin:
        existing = describe_topics(admin, [need.topic for need in wanted])
        missing = {
            need.topic: {
                "num_partitions": need.partitions,
                "replication_factor": -1 if replication_factor is None else replication_factor,
                "configs": _make_configs(need, replication_factor),
            }
            for need in wanted
            if need.topic not in existing
        }
        if missing:
            with connections.translate_errors("Create"):
                admin.create_topics(missing, wait_for_metadata=True)
    return list(missing)


def _make_configs(need: TopicNeeds, replication_factor: int | None) -> dict[str, str]:
    configs = {setting.key: setting.create for setting in need.settings}
    if need.durable and replication_factor is not None and replication_factor >= _SPARE:
        configs[_IN_SYNC] = str(LEAST_REPLICAS)
    return configs


class TopicWatch:
    """A check of the topics' settings every `every_seconds`, for one thread. `monotonic` returns seconds.

    The check does not report a missing topic, which the components that read or write it notice and handle.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        wanted: Sequence[TopicNeeds],
        every_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._wanted = tuple(wanted)
        self._every = every_seconds
        self._monotonic = monotonic
        self._checked_at = monotonic()

    def look(self) -> bool:
        """Check the settings if a check is due; return whether they were read and suffice.

        If Kafka does not answer, the next check takes place at the usual time.

        Raises:
            TopicError: lists every setting that no longer suffices, and how to correct it.
        """
        if self._monotonic() - self._checked_at < self._every:
            return False
        self._checked_at = self._monotonic()
        try:
            check_existing_topics(self._connections, self._wanted)
        except UnreachableError as error:
            log.info("the settings of the topics cannot be checked now: %s", error)
            return False
        return True
