"""The files of the package, read once. A request only looks up a name, so no path leads to other files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from monitor import __version__
from monitor.page.response_bodies import Body, make_body

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Static:
    """All static files by name, each with its media type. `build` is a digest of them, and part of their address."""

    files: Mapping[str, tuple[Body, str]]
    build: str

    def find(self, build: str, name: str) -> tuple[Body, str] | None:
        """Return a file of this build; None if there is none."""
        return self.files.get(name) if build == self.build else None

    @property
    def modules(self) -> list[str]:
        """The names of the scripts."""
        return sorted(name for name in self.files if name.endswith(".js"))


def read_static() -> Static:
    """Read the static files."""
    files = {}
    for path in (resources.files("monitor.page") / "static").iterdir():
        kind = path.name.rpartition(".")[2]
        if kind in _TYPES:
            files[path.name] = make_body(path.read_bytes()), _TYPES[kind]
    digest = hashlib.sha256("".join(files[name][0].tag for name in sorted(files)).encode()).hexdigest()
    return Static(files, digest[:16])


def read_openapi() -> dict[str, Any]:
    """Read the OpenAPI document of the page's interface, and set the version of the package."""
    file = resources.files("monitor.page") / "openapi.json"
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    document["info"]["version"] = __version__
    return document
