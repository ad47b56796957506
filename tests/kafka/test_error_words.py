"""Errors of kafka-python become sentences that name what to check, and keep the error's name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from kafka import errors

from monitor.kafka.connections import KafkaConnections, make_topic_refusal
from monitor.kafka.error_words import put_into_words
from monitor.kafka.kafka_python_3_0.network import TLS_ALERT

CONNECTIONS = KafkaConnections(("kafka-1:9092", "kafka-2:9092"))
ALL: list[Any] = [
    kind
    for _name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.KafkaError) and kind.__module__ == errors.__name__
]


def _create(kind: Any) -> Any:
    try:
        return kind()
    except TypeError:  # LogTruncationError needs an argument
        return kind({})


def test_no_error_is_shown_raw() -> None:
    """The message of any kafka-python error has the address, words, and the error's name, and no bare error number."""
    assert len(ALL) > 100
    for kind in ALL:
        message = str(CONNECTIONS.make_unreachable_error(_create(kind)))
        assert message.startswith("Kafka at kafka-1:9092, kafka-2:9092 cannot be used: "), kind
        words = message.partition(" cannot be used: ")[2]
        assert not words.startswith("[Error"), kind
        assert words != kind.__name__, kind
        assert len(words.split()) > 5, message


def test_port_with_tls_is_not_a_wrong_password() -> None:
    """An alert of TLS is a reason of its own, and a connection that was only closed may have the same reason."""
    security = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    connections = KafkaConnections(("kafka-1:9093",), security)
    closed = errors.KafkaConnectionError("socket disconnected")
    alert = errors.KafkaConnectionError(TLS_ALERT)
    assert "the port uses TLS: set kafka.security_protocol, which is SASL_PLAINTEXT, to" in str(
        connections.make_unreachable_error(closed, alert)
    )
    assert "(SASL_PLAINTEXT) and not TLS" in str(connections.make_unreachable_error(closed))


@pytest.mark.parametrize(
    ("error", "operation", "permission"),
    [
        (errors.TopicAuthorizationFailedError({"visits"}), "Read", "Read on a topic"),
        (errors.TopicAuthorizationFailedError({"alerts"}), "Write", "Write on a topic"),
        (make_topic_refusal("visits", "DescribeConfigs"), "Read", "DescribeConfigs on a topic"),
        (errors.GroupAuthorizationFailedError("town.ab"), "Write", "Read on a group"),
        (errors.TransactionalIdAuthorizationFailedError(), "Write", "Write on a transactional id"),
        (errors.KafkaError("GroupAuthorizationFailedError: town.ab"), "Read", "Read on a group"),
        (errors.ClusterAuthorizationFailedError(), "Write", "IdempotentWrite on the cluster"),
    ],
)
def test_missing_permission_is_named(error: Exception, operation: str, permission: str) -> None:
    """A missing permission is named by its operation and resource."""
    message = str(CONNECTIONS.make_unreachable_error(error, operation=operation))
    assert f"its user lacks the permission {permission} (" in message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.IllegalSaslStateError(), "kafka.security_protocol and kafka.sasl_mechanism"),
        (errors.NodeNotReadyError("node 1"), "advertised.listeners cannot be reached"),
        (errors.KafkaTimeoutError("30 s"), "did not answer in time"),
        (errors.UnknownError("Future not done"), "did not acknowledge the records in time"),
        (errors.CoordinatorNotAvailableError(), "the coordinator is not available now"),
        (errors.NotEnoughReplicasError(), "min.insync.replicas"),
        (errors.MessageSizeTooLargeError(), "raise max.message.bytes"),
        (errors.InvalidReplicationFactorError(), "kafka.replication_factor"),
        (errors.UnsupportedVersionError(), "expected Apache Kafka 3 or later"),
        (errors.KafkaConnectionError("DNS Resolution failure"), "no address was found for its host name"),
        (OSError(111, "Connection refused"), "nothing listens at this address and port"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_common_errors_say_what_to_check(error: Exception, words: str) -> None:
    """Each error that operators often see has its own sentence."""
    assert words in (put_into_words(error) or "")


def test_first_reason_with_words_counts() -> None:
    """Of several reasons the first one that can be explained counts, and a login comes before a time-out."""
    timeout = errors.KafkaTimeoutError("Unable to bootstrap from ['kafka-1:9092']")
    assert "no address was found" in str(
        CONNECTIONS.make_unreachable_error(errors.KafkaConnectionError("DNS Resolution failure"), timeout)
    )
    assert "refused the login" in str(
        CONNECTIONS.make_unreachable_error(timeout, errors.SaslAuthenticationFailedError())
    )
