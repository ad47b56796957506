"""The settings of the connections to Kafka and Redis, the metrics endpoint, and the export of telemetry."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

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
