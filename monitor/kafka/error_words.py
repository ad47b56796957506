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

_UNTRUSTED: Final = re.compile(r"certificate verify failed: (.+?)\.?(?: \(_ssl|['\"),]*$)")
_ALERT: Final = re.compile(r"\[SSL: \w*ALERT\w*\] (?:\w+ )?alert ([\w ]+?)(?: \(_ssl|$)", re.IGNORECASE)
# The last mark is the text of Python 3.11.2 (Debian 12) for UNEXPECTED_EOF.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF", "has been closed (EOF)")
_UNUSABLE: Final = re.compile(
    r"KEY_VALUES_MISMATCH|PEM lib|NO_CERTIFICATE_OR_CRL_FOUND"
    r"|(?:\[Errno \d+\] |:\d+\. )(No such file or directory|Permission denied)"
)
_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "the private key is not that of the certificate",
    "PEM lib": "not in PEM format, or not complete",
    "NO_CERTIFICATE_OR_CRL_FOUND": "no certificate in it",
}
_CLOSED: Final = "EOF occurred in violation of protocol"  # the alert may be lost if the client writes at the same time


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


def explain_tls_error(text: str, section: str) -> str | None:
    """Return why TLS failed according to a client's error text; None if the error is not about TLS.

    The explanation quotes only OpenSSL's own words from the text.

    Args:
        text: the client's error text.
        section: the section of the configuration, `kafka` or `redis`.
    """
    if untrusted := _UNTRUSTED.search(text):
        return (
            f"its certificate is not trusted ({untrusted[1]}): expected a certificate for the configured host name or "
            f"address, from an authority in {section}.ca_file (without it, from one that the system trusts)"
        )
    if alert := _ALERT.search(text):
        files = f"check {section}.certificate_file and {section}.key_file, or see the server's log"
        return f"it ended the TLS handshake ({alert[1].strip()}): {files}"
    if unusable := _UNUSABLE.search(text):
        reason = unusable[1] or _REASONS[unusable[0]]
        return (
            f"a file for TLS cannot be used ({reason}): check {section}.ca_file, {section}.certificate_file and "
            f"{section}.key_file; they are read again for each connection"
        )
    if any(mark in text for mark in _NOT_TLS):
        return "it does not use TLS on this port: check its address and port"
    if _CLOSED in text:
        files = f"check {section}.certificate_file and {section}.key_file, or see the server's log"
        return f"it closed the TLS connection: if this lasts, {files}"
    return None
