"""Find the demo's configuration files in the installed package or in the folder config/ of a checkout."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from monitor.errors import FailedError

CONFIG: Final = "demo.yaml"
REGISTRY: Final = "demo-locations.csv"
MAP: Final = "demo-map.geojson"

_PACKAGED: Final = "examples"
_CHECKOUT: Final = Path(__file__).parents[3] / "config"


def copy_examples(folder: Path) -> Path:
    """Copy the configuration, its registry and its map into a folder and return the path of the configuration's copy.

    Raises:
        FailedError: one of these files is missing from this installation.
    """
    for name in (CONFIG, REGISTRY, MAP):
        (folder / name).write_bytes(_find(name).read_bytes())
    return folder / CONFIG


def _find(name: str) -> Traversable:
    packaged = resources.files("monitor") / _PACKAGED / name
    for path in (packaged, _CHECKOUT / name):
        if path.is_file():
            return path
    raise FailedError(f"{packaged} is missing: this installation of location-monitor is incomplete; reinstall it")
