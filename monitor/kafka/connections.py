"""Kafka clients, all created in one place with the settings that the service needs.

kafka-python ships no types, so its clients are `Any` here. Each caller wraps its client in a typed class.

A password and a token are files that other programs renew. A file is read at each login. kafka-python logs in again at
each connection, and before the brokers' time limit of a login (KIP-368). So a renewed file is used without a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from monitor.config.kafka_and_redis import KafkaSettings
from monitor.config.secret_values import read_kafka_password, require_files
from monitor.errors import ConfigError, UnreachableError
from monitor.kafka.error_words import explain_tls_error, name_error, put_into_words
from monitor.kafka.kafka_python_3_0.coordinator import Member
from monitor.kafka.kafka_python_3_0.decoders import compile_decoders_alone
from monitor.kafka.kafka_python_3_0.network import TLS_ALERT, NetworkClient, ProducersNetworkClient
from monitor.kafka.kafka_python_3_0.producer import REQUEST_TIMEOUT_MS, Producer

_CHECK_IT: Final = (
    "check the token in kafka.token_file: that it has not expired, and that the brokers accept its issuer"
)

_BY_PASSWORD: Final = {
    "PLAIN": SaslMechanismPlain,
    "SCRAM-SHA-256": SaslMechanismScram,
    "SCRAM-SHA-512": SaslMechanismScram,
}

BOOTSTRAP_TIMEOUT_MS: Final = 5_000
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024  # the limit of the producer; the limits of the topics are lower

# A member learns from its next heartbeat that another member has died and that the group rebalances. Kafka recommends 3
# or more heartbeats per session. With 12, a member with the default session joins the rebalance within 0.8 s; with 4,
# within 2.5 s.
HEARTBEATS_PER_SESSION: Final = 12

# The maximum time until new partitions are noticed. The end offsets that a tick waits for do not depend on it.
METADATA_MAX_AGE_MS: Final = 10_000

_DISCONNECTED: Final = "socket disconnected"
_LOGIN: Final = "check kafka.username, its password and kafka.sasl_mechanism"


class LoginFileError(SaslAuthenticationFailedError):  # type: ignore[misc]  # kafka-python ships no types
    """A file has no password or no token. The login fails, and the client tries again. It never shows the content."""


def read_passwords_at_logins() -> None:
    """Let kafka-python call `sasl_plain_password` at each login. It expects a password there, which it would keep."""
    for name, mechanism in _BY_PASSWORD.items():
        register_sasl_mechanism(name, partial(_log_in, mechanism), overwrite=True)


def _log_in(mechanism: Any, **settings: Any) -> Any:
    """Return one login with the present password.

    Raises:
        LoginFileError: the password file cannot be read, is empty, or is not UTF-8.
    """
    try:
        password = settings["sasl_plain_password"]()
    except ConfigError as error:
        raise LoginFileError(str(error.problems[0])) from None
    return mechanism(**settings | {"sasl_plain_password": password.get_secret_value()})


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python ships no types
    """Reads the token at each login."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Return the token, without space around it.

        Raises:
            LoginFileError: the file cannot be read, or has no token.
        """
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not ASCII"
            raise LoginFileError(f"kafka.token_file is {self._path} ({reason})") from None
        if not token.isprintable() or " " in token or not token:
            raise LoginFileError(f"kafka.token_file is {self._path}, which has no token")
        return token


@dataclass(frozen=True)
class KafkaConnections:
    """The address of Kafka and how to connect. `security`: secret settings of kafka-python, which `repr` omits."""

    bootstrap_servers: tuple[str, ...]
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    client_id: str = "location-monitor"
    session_timeout_ms: int = 10_000

    def create_admin(self) -> Any:
        """Return an admin client. This and the other clients raise UnreachableError if no broker can be used."""
        return self._create(KafkaAdminClient, self._make_common_settings() | {"retry_backoff_ms": 20})

    @contextmanager
    def open_admin(self) -> Iterator[Any]:
        """Open an admin client for a few requests, and raise every error of kafka-python as an UnreachableError."""
        with self.translate_errors(), closing(self.create_admin()) as admin:
            yield admin

    def create_consumer(self, **settings: Any) -> Any:
        """Return a consumer that neither commits nor resets a position automatically."""
        return self._create(KafkaConsumer, self._make_consumer_settings(settings))

    def create_member(self, group: str, **settings: Any) -> Any:
        """Return a consumer in a group. Other members keep reading during a rebalance (cooperative)."""
        membership: dict[str, Any] = {
            "group_id": group,
            "partition_assignment_strategy": (CooperativeStickyAssignor,),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": max(100, self.session_timeout_ms // HEARTBEATS_PER_SESSION),
        }
        return self._create(Member, self._make_consumer_settings(membership | settings))

    def create_producer(self, **settings: Any) -> Any:
        """Return an idempotent producer that waits for all in-sync replicas."""
        defaults: dict[str, Any] = {
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "max_request_size": MAX_RECORD_BYTES,
            "max_block_ms": REQUEST_TIMEOUT_MS,
            "delivery_timeout_ms": 3 * REQUEST_TIMEOUT_MS,
        }
        return self._create(Producer, self._make_common_settings() | defaults | settings)

    @contextmanager
    def translate_errors(self, operation: str = "Read") -> Iterator[None]:
        """Raise errors of kafka-python as an UnreachableError with the server, its address and the reason.

        `operation`: the permission on a topic that the requests need.
        """
        try:
            yield
        except (KafkaError, OSError) as error:
            raise self.make_unreachable_error(error, operation=operation) from error

    def make_unreachable_error(self, *reasons: BaseException, operation: str = "Read") -> UnreachableError:
        """Return an error with the first of these reasons that can be explained, and the setting to check."""
        explanation = next(filter(None, (self._explain(reason, operation) for reason in reasons)), None)
        if explanation is None and any(_DISCONNECTED in str(reason) for reason in reasons):
            explanation = self._explain_disconnect()
        explanation = explanation or next(filter(None, map(put_into_words, reasons)), None) or name_error(reasons[0])
        return UnreachableError(f"Kafka at {', '.join(self.bootstrap_servers)} cannot be used: {explanation}")

    def _explain(self, error: BaseException, operation: str) -> str | None:
        """Return an explanation of an error of the login, of permissions or of TLS; None for any other error."""
        if isinstance(error, LoginFileError):
            secret = "token" if "sasl_oauth_token_provider" in self.security else "password"
            return f"the login lacks a {secret}: {error.args[0]}"
        if isinstance(error, SaslAuthenticationFailedError):
            return f"it refused the login: {self._login}"
        if TLS_ALERT in str(error):
            return (
                f"the port uses TLS: set kafka.security_protocol, which is {self._protocol}, to SSL or SASL_SSL, or "
                "correct the port in kafka.bootstrap_servers"
            )
        return _explain_refusal(error, operation)

    @property
    def _protocol(self) -> str:
        return str(self.security.get("security_protocol", "PLAINTEXT"))

    def _explain_disconnect(self) -> str:
        """Return the likely reason for a disconnect. kafka-python often reports a refused login only as such."""
        check_protocol = f"check that the port uses kafka.security_protocol ({self._protocol})"
        if not self._protocol.endswith("SSL"):
            check_protocol += " and not TLS"
        check_address = "and that the address in kafka.bootstrap_servers can be reached"
        if "sasl_mechanism" not in self.security:
            return f"it closed the connection: {check_protocol}, {check_address}"
        return f"it closed the connection during the login: {self._login}; {check_protocol}, {check_address}"

    @property
    def _login(self) -> str:
        """What to check if the login fails."""
        return _CHECK_IT if "sasl_oauth_token_provider" in self.security else _LOGIN

    def _create(self, kind: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
        """Create a client. If this fails, close its network client; otherwise a thread and sockets would remain."""
        compile_decoders_alone()
        nets: list[NetworkClient] = []
        network = ProducersNetworkClient if kind is Producer else NetworkClient

        def net(**given: Any) -> NetworkClient:
            nets.append(network(**given))
            return nets[-1]

        try:
            client = kind(**settings, kafka_client=net)
        except BaseException as error:
            for net_client in nets:
                net_client.close()
            if not isinstance(error, KafkaError | OSError):
                raise
            raise self.make_unreachable_error(
                *(reason for net_client in nets for reason in net_client.reasons), error
            ) from error
        for net_client in nets:
            net_client.stop_recording()
        return client

    def _make_consumer_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **self._make_common_settings(),
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
            "fetch_max_wait_ms": 250,
            "retry_backoff_ms": 20,
            **settings,
        }

    def _make_common_settings(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "reconnect_backoff_max_ms": 500,  # a broker that comes back is used again within this time
            **self.security,
        }


def make_topic_refusal(topic: str, operation: str) -> KafkaError:
    """Return the error of kafka-python about a missing permission on a topic, with the name of the operation."""
    error = TopicAuthorizationFailedError(topic)
    error.operation = operation
    return error


def _name_permission(error: BaseException, operation: str) -> str:
    """Return the permission that an error is about. `operation`: the one on a topic, if the error has none."""
    text = f"{type(error).__name__} {error}"
    if "GroupAuthorizationFailed" in text:
        return "Read on a group"
    if "TransactionalIdAuthorizationFailed" in text:
        return "Write on a transactional id"
    if "ClusterAuthorizationFailed" in text:
        return f"{'IdempotentWrite' if operation == 'Write' else operation} on the cluster"
    return f"{getattr(error, 'operation', operation)} on a topic"


def _explain_refusal(error: BaseException, operation: str) -> str | None:
    if isinstance(error, UnsupportedSaslMechanismError):
        return "it does not support this kafka.sasl_mechanism: set one that the brokers enable"
    # A missing permission may be the cause of another error, whose text names it.
    if isinstance(error, AuthorizationError) or "AuthorizationFailedError" in str(error):
        lacking = _name_permission(error, operation)
        return f"its user lacks the permission {lacking} ({error}): grant the permissions that docs/operations.md lists"
    return explain_tls_error(str(error), "kafka")


def build_kafka_connections(kafka: KafkaSettings, service: str) -> KafkaConnections:
    """Return the connection settings of the configured Kafka. `service`: the name of the service.

    Raises:
        ConfigError: (exit 2) the password file or a certificate file of Kafka cannot be read.
    """
    require_files(kafka, None)
    read_kafka_password(kafka)
    security: dict[str, object] = {"security_protocol": kafka.security_protocol}
    if kafka.uses_sasl:
        security |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.username,
            "sasl_plain_password": partial(read_kafka_password, kafka),
        }
        read_passwords_at_logins()
    if kafka.token_file is not None:
        security["sasl_oauth_token_provider"] = TokenFile(kafka.token_file)
    if kafka.uses_tls:
        files = {"ssl_cafile": kafka.ca_file, "ssl_certfile": kafka.certificate_file, "ssl_keyfile": kafka.key_file}
        security |= {name: str(path) for name, path in files.items() if path is not None}
    return KafkaConnections(kafka.bootstrap_servers, security, f"location-monitor-{service}")
