"""Sentences for errors of kafka-python that can reach an operator: what happened, the key to check, what to do.

The name of the error stays in the text, so that it can be searched for.
"""

from __future__ import annotations

import re
from typing import Final

from kafka import errors

_ADDRESS: Final = "check kafka.bootstrap_servers"

_BY_TEXT: Final = (
    (
        ("DNS Resolution failure", "DNS lookup failed", "Name or service not known", "getaddrinfo"),
        f"no address was found for its host name: {_ADDRESS}, and the DNS of this machine",
    ),
    (
        ("ECONNREFUSED", "Connection refused"),
        f"nothing listens at this address and port: {_ADDRESS}, and start the broker",
    ),
    (
        ("Unable to bootstrap",),
        f"no broker answered: {_ADDRESS}, and that the port uses kafka.security_protocol and kafka.sasl_mechanism",
    ),
    (
        ("ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "Connection timed out", "No route to host"),
        f"this address cannot be reached: {_ADDRESS}, the network and its firewalls",
    ),
    (
        ("Future not done",),  # of a producer's flush, which raises it as an UnknownError
        "it did not acknowledge the records in time: check that the brokers run, their load, and the network",
    ),
)
"""Parts of an error text, and the sentence for it."""

_SASL_STATE: Final = (
    "the port does not expect this login: expected a port that uses kafka.security_protocol and kafka.sasl_mechanism; "
    "check both, and the port in kafka.bootstrap_servers"
)
_NOT_READY: Final = (
    "the connection to a broker is not ready: the broker may be starting, or the address in its advertised.listeners "
    "cannot be reached from this machine; check both"
)
_NO_TOPIC: Final = (
    "a topic or partition does not exist, or the user may not see it: check kafka.topics, and run `location-monitor "
    "topics`"
)
_LEADERLESS: Final = "the partition has no leader that answers now: check that all brokers run; the request is repeated"
_COORDINATOR: Final = "the coordinator is not available now: check that all brokers run; the request is repeated"
_REPLICAS: Final = (
    "too few replicas are in sync, so the record was not accepted: expected at least min.insync.replicas of the topic; "
    "restore the brokers that are down"
)
_TOO_LARGE: Final = "a record is larger than the topic allows: raise max.message.bytes of the topic"
_NOT_KAFKA: Final = (
    "the server did not answer as a Kafka broker: expected Kafka on this port; check the port in "
    "kafka.bootstrap_servers, and kafka.security_protocol"
)

_UNKNOWN_REQUEST: Final = (
    "the broker does not know a request that the service needs: expected Apache Kafka 3 or later; upgrade the brokers, "
    "and see docs/supported.md for other brokers"
)

_BY_KIND: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...]] = (
    (errors.IllegalSaslStateError, _SASL_STATE),
    (
        errors.NodeNotReadyError,
        _NOT_READY,
    ),
    (
        (errors.UnsupportedVersionError, errors.UnrecognizedBrokerVersion),
        _UNKNOWN_REQUEST,
    ),
    (
        errors.UnknownTopicOrPartitionError,
        _NO_TOPIC,
    ),
    ((errors.NotLeaderForPartitionError, errors.LeaderNotAvailableError), _LEADERLESS),
    (
        (
            errors.CoordinatorNotAvailableError,
            errors.CoordinatorLoadInProgressError,
            errors.NotCoordinatorError,
        ),
        _COORDINATOR,
    ),
    ((errors.NotEnoughReplicasError, errors.NotEnoughReplicasAfterAppendError), _REPLICAS),
    ((errors.MessageSizeTooLargeError, errors.RecordListTooLargeError), _TOO_LARGE),
    (
        errors.InvalidReplicationFactorError,
        "there are too few brokers: expected at least kafka.replication_factor; lower it, or start more brokers",
    ),
    (
        errors.PolicyViolationError,
        "a policy of the cluster forbids it: ask its administrator, or create the topics with the cluster's own tools",
    ),
    (
        (errors.KafkaProtocolError, errors.CorrelationIdError, errors.InvalidReceiveError),
        _NOT_KAFKA,
    ),
    (
        (errors.MetadataEmptyBrokerList, errors.StaleMetadata, errors.UnknownBrokerIdError),
        "it lists no broker that can be used: check that the brokers run, and their advertised.listeners",
    ),
    (
        (errors.KafkaTimeoutError, errors.RequestTimedOutError),
        "it did not answer in time: check that the brokers run, their load, and the network",
    ),
    (errors.IllegalStateError, "the client was in an unexpected state: it is re-created"),
)
"""Kinds of errors, and the sentence for them. The first kind that fits is used."""


def put_into_words(error: BaseException) -> str | None:
    """Return a sentence for an error of kafka-python or of the network; None for one that is not in the lists."""
    text = str(error)
    for marks, sentence in _BY_TEXT:
        if any(mark in text for mark in marks):
            return f"{sentence} ({_shorten(error)})"
    for kind, sentence in _BY_KIND:
        if isinstance(error, kind):
            return f"{sentence} ({type(error).__name__})"
    return None


def _shorten(error: BaseException) -> str:
    """Return the text of an error without the number and the name of its class, which kafka-python puts first."""
    words = re.sub(r"^\[Error [^\]]*\] ", "", str(error))
    return words.removeprefix(f"{type(error).__name__}: ") or type(error).__name__


def name_error(error: BaseException) -> str:
    """Return the name and the text of an error that has no sentence."""
    words = _shorten(error)
    name = type(error).__name__
    return f"{name}: see the log of the brokers" if words == name else f"{words} ({name}): see the log of the brokers"
