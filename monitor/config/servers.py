"""Where Kafka, Redis and the metrics are, and how to talk to them."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from monitor.config.scalars import (
    BrokerAddress,
    FilePath,
    Line,
    Masked,
    Password,
    Port,
    ReplicationFactor,
    Section,
    TopicName,
    WholeNumber,
    invalid_value,
)

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_URL: Final = "a URL such as redis://localhost:6379/0, rediss://redis.example:6380/0 or unix:///run/redis.sock?db=0"


def _several(value: object) -> object:
    """Also take `one:9092,two:9092`, as Kafka's own tools write it."""
    return value.split(",") if isinstance(value, str) else value


def _some(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if not addresses:
        raise invalid_value("at least one broker's address", "Add one, such as localhost:9092.")
    return addresses


class TopicNames(Section):
    """The topics, which must differ."""

    visits: TopicName = Field(description="the input topic")
    alerts: TopicName = Field(description="the output topic, which is the ledger as well")
    dead_letters: TopicName = Field(description="the topic of refused visits")


class PartitionCounts(Section):
    """How many partitions `topics --create` makes."""

    visits: WholeNumber = Field(default=8, description="partitions of the input topic")
    alerts: WholeNumber = Field(default=1, description="partitions of the output topic")


class KafkaSettings(Section):
    """Kafka: the brokers, the topics, and what it takes to be let in."""

    bootstrap_servers: Annotated[tuple[BrokerAddress, ...], BeforeValidator(_several), AfterValidator(_some)] = Field(
        description="a list of brokers' addresses such as [localhost:9092]"
    )
    topics: TopicNames = Field(description="the names of the topics: visits, alerts, dead_letters")
    partitions: PartitionCounts = Field(default_factory=PartitionCounts, description="partitions by topic")
    replication_factor: ReplicationFactor | None = Field(default=None, description="absent: the brokers' default")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(default="PLAINTEXT")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(default=None)
    username: Line | None = Field(default=None, description="the user of SASL")
    password_file: FilePath | None = Field(default=None, description="the file that holds the user's password")
    password: Annotated[Password | None, SkipJsonSchema()] = Field(default=None)
    ca_file: FilePath | None = Field(default=None, description="the authorities that the brokers are checked against")
    certificate_file: FilePath | None = Field(default=None, description="the certificate shown to the brokers")
    key_file: FilePath | None = Field(default=None, description="the private key of the certificate")

    @property
    def uses_sasl(self) -> bool:
        """Whether a user and a password are asked for."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")


def split_redis_url(text: str) -> SplitResult | None:
    """The parts of a Redis URL, or None if it is none that the service can use."""
    try:
        parts = urlsplit(text)
        port = parts.port  # raises for one that is no number or above 65535
        query = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return None
    database = parts.path.lstrip("/")
    where = (
        bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname) and (not database or database.isdigit())
    )
    options = set(query) <= {"db", "password"} and all(value.isdigit() for value in query.get("db", ()))
    whole = where and options and port != 0 and not parts.fragment
    return parts if parts.scheme in {"redis", "rediss", "unix"} and whole else None


def url_password(text: str) -> str | None:
    """The password inside a Redis URL, however it is written; None without one."""
    parts = split_redis_url(text)
    if parts is None:
        return None
    inside = unquote(parts.password) if parts.password else None
    return inside or next(iter(parse_qs(parts.query).get("password", ())), None)


def _redis_url(value: object) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or split_redis_url(text) is None:
        raise invalid_value(_URL)
    return SecretStr(text)


class RedisSettings(Section):
    """Redis (or Valkey): where it is, and what it takes to be let in. The URL is secret: it may hold a password."""

    url: Annotated[
        SecretStr,
        PlainValidator(_redis_url),
        Masked,
        WithJsonSchema({"type": "string", "examples": ["redis://localhost:6379/0"]}),
    ] = Field(description=_URL)
    username: Line | None = Field(default=None, description="the user of Redis's access lists")
    password_file: FilePath | None = Field(default=None, description="the file that holds the user's password")
    password: Annotated[Password | None, SkipJsonSchema()] = Field(default=None)
    cluster: bool = Field(default=False, description="true for Redis Cluster")
    ca_file: FilePath | None = Field(default=None, description="the authorities that the server is checked against")

    @property
    def parts(self) -> SplitResult:
        """The parts of the URL; may hold the password."""
        return urlsplit(self.url.get_secret_value())

    @property
    def address(self) -> str:
        """The URL without user, password and options: fit to be shown."""
        parts = self.parts
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class MetricsSettings(Section):
    """Where metrics and health are served."""

    port: Port = Field(default=9108, description="the port of /metrics, /healthz and /readyz; 0: any free one")
