"""What failed TLS means: in plain words, with the setting to look at. kafka-python and redis-py give OpenSSL's text."""

from __future__ import annotations

import re
from typing import Final

_UNTRUSTED: Final = re.compile(r"certificate verify failed: (.+?)\.?(?: \(_ssl|['\"),]*$)")
_BROKEN_OFF: Final = re.compile(r"\[SSL: \w*ALERT\w*\] (?:\w+ )?alert ([\w ]+?)(?: \(_ssl|$)", re.IGNORECASE)
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF")


def tls_reason(text: str, section: str) -> str | None:
    """Why TLS failed, by a client's error text; None if that does not tell of TLS.

    `section` is the configuration's, `kafka` or `redis`. Nothing of the text is passed on but OpenSSL's own words.
    """
    if untrusted := _UNTRUSTED.search(text):
        return (
            f"its certificate is not trusted ({untrusted[1]}): expected one for the very name or address by which it "
            f"is reached, from an authority that {section}.ca_file holds (the system's, without it)"
        )
    if broken_off := _BROKEN_OFF.search(text):
        own = f"see {section}.certificate_file and {section}.key_file, or the server's log"
        return f"it broke TLS off ({broken_off[1].strip()}): {own}"
    if any(mark in text for mark in _NOT_TLS):
        return "it does not answer with TLS: see that its address and port are those that do"
    return None
