"""Explanations of TLS failures, with the setting to check. The errors of kafka-python and redis-py quote OpenSSL."""

from __future__ import annotations

import re
from typing import Final

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
