"""The files of the package that the page needs in the browser, read once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from monitor import __version__

_SUFFIXES: Final = (".css", ".js", ".svg")


@dataclass(frozen=True, slots=True)
class Static:
    """All static files by name. `build` is a digest of them, and part of their address."""

    files: Mapping[str, bytes]
    build: str

    @property
    def modules(self) -> list[str]:
        """The names of the scripts."""
        return sorted(name for name in self.files if name.endswith(".js"))


def read_static() -> Static:
    """Read the static files."""
    folder = (resources.files("monitor.page") / "static").iterdir()
    files = {path.name: path.read_bytes() for path in folder if path.name.endswith(_SUFFIXES)}
    content = b"".join(hashlib.sha256(files[name]).digest() for name in sorted(files))
    return Static(files, hashlib.sha256(content).hexdigest()[:16])


def read_openapi() -> dict[str, Any]:
    """Read the OpenAPI document of the files, and set the version of the package."""
    file = resources.files("monitor.page") / "openapi.json"
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    document["info"]["version"] = __version__
    return document
