"""The demo's configuration: part of an installed package, and of a checkout's folder config/."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from monitor.errors import FailedError

CONFIG: Final = "demo.yaml"
REGISTRY: Final = "demo-locations.csv"

_PACKAGED: Final = "examples"
_CHECKOUT: Final = Path(__file__).parents[3] / "config"


def copied_to(folder: Path) -> Path:
    """Put the configuration and its registry into a folder; returns the configuration's path there.

    Raises:
        FailedError: this installation lacks one of the two.
    """
    for name in (CONFIG, REGISTRY):
        (folder / name).write_bytes(_found(name).read_bytes())
    return folder / CONFIG


def _found(name: str) -> Traversable:
    packaged = resources.files("monitor") / _PACKAGED / name
    for place in (packaged, _CHECKOUT / name):
        if place.is_file():
            return place
    raise FailedError(f"{packaged} is not there: this installation of location-monitor is incomplete; install it anew")
