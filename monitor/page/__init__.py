"""The public page: an HTTP server that shows what was published. It reads the output topic and the registry only."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from monitor.errors import FailedError

_PACKAGES: Final = ("starlette", "uvicorn", "jinja2")


def require_page() -> None:
    """Check that the packages of the extra `page` are installed.

    Raises:
        FailedError: one of them is missing.
    """
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise FailedError(f"{', '.join(missing)}: not installed. Run: pip install 'location-monitor[page]'")
