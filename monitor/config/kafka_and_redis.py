"""The settings of the connections to Kafka and Redis and of the endpoints, and the conditions between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal, get_args
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from monitor.errors import Problem
from monitor.values.single_values import (
    FilePath,
    Line,
    Masked,
    Password,
    Port,
    ReplicationFactor,
    Section,
    ServerAddress,
    TopicName,
    WholeNumber,
    make_value_error,
)

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
SASL_MECHANISMS: Final[tuple[SaslMechanism, ...]] = get_args(SaslMechanism)

MAX_PARTITIONS: Final = 10_000
"""The maximum number of partitions that Kafka creates per request."""

SENTINEL_USER: Final = ("sentinel_username", "sentinel_password_file")
TLS_FILES: Final = ("ca_file", "certificate_file", "key_file")

_SCHEMES: Final = ("redis://", "rediss://", "unix://")
_URL: Final = "a URL such as redis://localhost:6379/0, rediss://redis.example:6380/0 or unix:///run/redis.sock?db=0"


def _split_addresses(value: object) -> object:
    """Split `one:9092,two:9092`, the form that Kafka's tools use."""
    return value.split(",") if isinstance(value, str) else value


def _require_addresses(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if not addresses:
        raise make_value_error("the address of at least one broker", "Add one, such as localhost:9092.")
    return addresses


class TopicNames(Section):
    """The names of the three topics, which must differ."""

    visits: TopicName = Field(description="the input topic")
    alerts: TopicName = Field(description="the output topic, which is also the ledger")
    dead_letters: TopicName = Field(description="the dead-letter topic, for refused visits")


class PartitionCounts(Section):
    """The number of partitions with which `topics --create` creates each topic."""

    visits: WholeNumber = Field(default=8, description="partitions of the input topic")
    alerts: WholeNumber = Field(default=1, description="partitions of the output topic")


class KafkaSettings(Section):
    """Kafka: the brokers, the topics, and the credentials."""

    bootstrap_servers: Annotated[
        tuple[ServerAddress, ...], BeforeValidator(_split_addresses), AfterValidator(_require_addresses)
    ] = Field(description="a list of broker addresses such as [localhost:9092]")
    topics: TopicNames = Field(description="the names of the topics: visits, alerts, dead_letters")
    partitions: PartitionCounts = Field(default_factory=PartitionCounts, description="partitions by topic")
    replication_factor: ReplicationFactor | None = Field(
        default=None, description="the replicas of each partition at its creation; absent: the brokers' default"
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    sasl_mechanism: SaslMechanism | None = Field(
        default=None, description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; required with SASL"
    )
    token_file: FilePath | None = Field(default=None, description="the file with the token of OAUTHBEARER")
    username: Line | None = Field(default=None, description="the SASL user")
    password_file: FilePath | None = Field(default=None, description="the file with the user's password")
    password: Annotated[Password | None, SkipJsonSchema()] = Field(default=None)
    ca_file: FilePath | None = Field(
        default=None, description="the certificate authorities that brokers are verified against"
    )
    certificate_file: FilePath | None = Field(default=None, description="the client certificate")
    key_file: FilePath | None = Field(default=None, description="the private key of the client certificate")

    @property
    def uses_sasl(self) -> bool:
        """Whether a login is required: a user and a password, or a token."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")


KafkaSection = Annotated[KafkaSettings, Field(description="a mapping with bootstrap_servers and topics")]


def split_redis_url(text: str) -> SplitResult | None:
    """Return the parts of a Redis URL, or None if the service cannot use it."""
    try:
        parts = urlsplit(text)
        port = parts.port  # raises if not a number, or above 65535
        query = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return None
    database = parts.path.lstrip("/")
    has_address = (
        bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname) and (not database or database.isdigit())
    )
    valid_options = set(query) <= {"db", "password"} and all(value.isdigit() for value in query.get("db", ()))
    valid = has_address and valid_options and port != 0 and not parts.fragment
    return parts if parts.scheme in {"redis", "rediss", "unix"} and valid else None


def find_url_password(text: str) -> str | None:
    """Return the password in a Redis URL, from the user part or the query; None if there is none."""
    parts = split_redis_url(text)
    if parts is None:
        return None
    in_user_part = unquote(parts.password) if parts.password else None
    return in_user_part or next(iter(parse_qs(parts.query).get("password", ())), None)


def _parse_redis_url(value: object) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or split_redis_url(text) is None:
        has_scheme = isinstance(text, str) and text.startswith(_SCHEMES)
        raise make_value_error(_URL, "" if has_scheme else f"Begin it with {', '.join(_SCHEMES)}.")
    return SecretStr(text)


class RedisSettings(Section):
    """Redis (or Valkey): its address and credentials. The URL is a secret, because it may contain a password."""

    url: Annotated[
        SecretStr,
        PlainValidator(_parse_redis_url),
        Masked,
        WithJsonSchema({"type": "string", "examples": ["redis://localhost:6379/0"]}),
    ] = Field(description=_URL)
    username: Line | None = Field(default=None, description="the user of Redis's ACL")
    password_file: FilePath | None = Field(default=None, description="the file with the user's password")
    password: Annotated[Password | None, SkipJsonSchema()] = Field(default=None)
    cluster: bool = Field(default=False, description="true for Redis Cluster")
    sentinels: Annotated[tuple[ServerAddress, ...] | None, BeforeValidator(_split_addresses)] = Field(
        default=None,
        description="the addresses of Sentinels, which name the primary; redis.url has its name as the host",
    )
    sentinel_username: Line | None = Field(default=None, description="the user at the Sentinels")
    sentinel_password_file: FilePath | None = Field(
        default=None, description="the file with the password that the Sentinels require"
    )
    ca_file: FilePath | None = Field(
        default=None, description="the certificate authorities that the server is verified against"
    )
    certificate_file: FilePath | None = Field(default=None, description="the client certificate")
    key_file: FilePath | None = Field(default=None, description="the private key of the client certificate")

    @property
    def parts(self) -> SplitResult:
        """The parts of the URL, which may contain the password."""
        return urlsplit(self.url.get_secret_value())

    @property
    def address(self) -> str:
        """The URL without user and password."""
        parts = self.parts
        database = parse_qs(parts.query).get("db")
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"{url}?db={database[0]}" if database else url

    @property
    def user(self) -> str | None:
        """The user of Redis's ACL, also from the URL; None for the default user."""
        return self.username or unquote(self.parts.username or "") or None


class AuditorSettings(Section):
    """`audit --follow`: the address of its metrics, and the key that cosigns checkpoints."""

    host: Line = Field(default="localhost", description="the address of the auditor's metrics and health")
    port: Port = Field(default=9109, description="the port of the auditor's metrics and health; 0: any free port")
    cosign_key_file: FilePath | None = Field(
        default=None,
        description="the file with the private key that cosigns checkpoints; absent: they are not cosigned",
    )


class MetricsSettings(Section):
    """The address of metrics and health."""

    host: Line = Field(
        default="localhost",
        description="the address of /metrics, /healthz and /readyz, which the public should not reach; 0.0.0.0 for all "
        "IPv4 addresses, as in a container",
    )
    port: Port = Field(default=9108, description="the port of /metrics, /healthz and /readyz; 0: any free port")


Has = Callable[..., bool]
"""A function that returns whether the values of all these dotted keys are valid. Only such values are compared."""


def check_kafka(kafka: KafkaSettings, has: Has) -> Iterator[Problem]:
    """Yield a problem for each broken condition between the keys of Kafka."""
    if has("kafka.topics"):
        yield from _check_topics(kafka)
    if has("kafka.partitions"):
        yield from _check_partitions(kafka)
    if has("kafka.security_protocol"):
        yield from _check_sasl(kafka, has)
        yield from _check_tls(kafka, has)
    if has("kafka.certificate_file", "kafka.key_file"):
        yield from check_certificate("kafka", kafka)


def _check_topics(kafka: KafkaSettings) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for role, topic in kafka.topics:
        # Kafka replaces dots with _ in metric names, and refuses a topic whose metric names would collide.
        other = first.setdefault(topic.replace(".", "_"), role)
        if other != role:
            what = f"a topic different from kafka.topics.{other}"
            if topic != (name := getattr(kafka.topics, other)):
                what += f" ({name!r}): Kafka treats . and _ as equal"
            yield Problem(f"kafka.topics.{role}", repr(topic), what, "Rename one of them.")


def _check_partitions(kafka: KafkaSettings) -> Iterator[Problem]:
    inputs, outputs = kafka.partitions.visits, kafka.partitions.alerts
    if inputs + 2 * outputs > MAX_PARTITIONS:  # the dead-letter topic has as many partitions as the output topic
        key = "visits" if inputs > outputs else "alerts"
        yield Problem(
            f"kafka.partitions.{key}",
            str(inputs if key == "visits" else outputs),
            f"visits + 2·alerts of at most {MAX_PARTITIONS}, the most partitions that Kafka creates at once",
            "Lower it; partitions can be added to the input topic later.",
        )


def _check_sasl(kafka: KafkaSettings, has: Has) -> Iterator[Problem]:
    protocol, mechanism = kafka.security_protocol, kafka.sasl_mechanism
    is_set = {
        "sasl_mechanism": mechanism is not None,
        "username": kafka.username is not None,
        "password_file": kafka.password_file is not None or kafka.password is not None,
        "token_file": kafka.token_file is not None,
    }
    remedies = {
        "sasl_mechanism": f"Add {', '.join(SASL_MECHANISMS[:-1])} or {SASL_MECHANISMS[-1]}.",
        "password_file": "Add it, or set LOCATION_MONITOR__KAFKA__PASSWORD.",
    }
    by_login = {"token_file"} if mechanism == "OAUTHBEARER" else {"username", "password_file"}
    wanted = {"sasl_mechanism", *by_login} if kafka.uses_sasl else set()
    for name, present in is_set.items():
        if not has(f"kafka.{name}") or present == (name in wanted):
            continue
        if not present:
            remedy = remedies.get(name, "Add it.")
            yield Problem(f"kafka.{name}", "missing", f"a value with security_protocol {protocol}", remedy)
        elif kafka.uses_sasl:
            yield Problem(f"kafka.{name}", "set", f"no such key with sasl_mechanism {mechanism}", "Remove it.")
        else:
            yield _report_unused_key(name, protocol, "SASL_SSL or SASL_PLAINTEXT")


def _report_unused_key(name: str, protocol: str, wanted: str) -> Problem:
    remedy = f"Remove it, or set kafka.security_protocol to {wanted}."
    return Problem(f"kafka.{name}", "set", f"no such key with security_protocol {protocol}", remedy)


def _check_tls(kafka: KafkaSettings, has: Has) -> Iterator[Problem]:
    for name in TLS_FILES:
        if has(f"kafka.{name}") and getattr(kafka, name) is not None and not kafka.uses_tls:
            yield _report_unused_key(name, kafka.security_protocol, "SSL or SASL_SSL")


def check_certificate(section: str, settings: KafkaSettings | RedisSettings) -> Iterator[Problem]:
    """Yield a problem for a certificate without its private key, or a private key without its certificate."""
    certificate, key = settings.certificate_file is not None, settings.key_file is not None
    if certificate != key:
        missing, given = ("key_file", "certificate_file") if certificate else ("certificate_file", "key_file")
        yield Problem(
            f"{section}.{missing}",
            "missing",
            f"a file, because {section}.{given} is set",
            f"Add it, or remove {section}.{given}.",
        )


def _check_sentinel_user(redis: RedisSettings) -> Iterator[Problem]:
    for name in SENTINEL_USER:
        if getattr(redis, name) is not None and not redis.sentinels:
            yield Problem(f"redis.{name}", "set", "no such key without redis.sentinels", "Remove it, or add these.")
    if redis.sentinel_username is not None and redis.sentinel_password_file is None:
        yield Problem(
            "redis.sentinel_password_file", "missing", "a file, because redis.sentinel_username is set", "Add it."
        )


def check_redis(redis: RedisSettings) -> Iterator[Problem]:
    """Yield a problem for each key that does not fit the URL or the kind of server."""
    parts = redis.parts
    for name in TLS_FILES if parts.scheme != "rediss" else ():
        if getattr(redis, name) is not None:
            yield Problem(
                f"redis.{name}", "set", "no such key without TLS", "Use rediss:// in redis.url, or remove the key."
            )
    yield from check_certificate("redis", redis)
    if redis.username is not None and parts.username:
        yield Problem("redis.username", "set twice", "one user", "Remove it here, or from redis.url.")
    if redis.password is not None and find_url_password(redis.url.get_secret_value()) is not None:
        yield Problem("redis.password", "set twice", "one password", "Remove it here, or from redis.url.")
    yield from _check_sentinel_user(redis)
    if redis.sentinels and redis.cluster:
        yield Problem("redis.sentinels", "set", "no such key with cluster: true", "Remove one of them.")
    elif redis.sentinels and (parts.scheme == "unix" or parts.port is not None):
        yield Problem(
            "redis.url",
            redis.address,
            "the name by which redis.sentinels know the primary, without a port, such as redis://primary/0",
            "Remove the port, or redis.sentinels.",
        )
    if redis.cluster and (parts.scheme == "unix" or parts.path.strip("/") not in {"", "0"} or "db=" in parts.query):
        yield Problem(
            "redis.url", redis.address, "database 0 on a network address with cluster: true", "End the URL with /0."
        )
