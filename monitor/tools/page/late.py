"""Hides the list that the server wrote when its answers expire, if no script has replaced the list by then.

A style does this, because it works when the script cannot be read. It is inline, because a server of another version
has neither the script nor the style sheet that the page names.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Final

from monitor.contracts.instants import SECOND

SECONDS: Final = (120, 60, 30, 10, 1)
"""How long the list may stay, in seconds. Without JavaScript the page reloads each minute."""

STYLE: Final = (
    "@keyframes hide{to{visibility:hidden}}@keyframes tell{to{visibility:visible;height:auto}}"
    ".late{visibility:hidden;height:0;margin:0;overflow:hidden}"
    ".served #list,.served #counts{animation:hide 0s forwards}.served .late{animation:tell 0s forwards}"
) + "".join(
    f".left-{seconds} #list,.left-{seconds} #counts,.left-{seconds} .late{{animation-delay:{seconds}s}}"
    for seconds in reversed(SECONDS)
)
"""The content of the page's style element."""

STYLE_SOURCE: Final = f"'sha256-{b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
"""The source that allows the style in a Content-Security-Policy."""


def round_seconds_left(left: int) -> int:
    """Return the greatest of `SECONDS` that is not above `left` (microseconds); the least one if all are above."""
    return next((seconds for seconds in SECONDS if seconds * SECOND <= left), SECONDS[-1])
