"""The rules of deploy/prometheus/ with shorter times, so that a soak test need not wait for hours.

Every `for`, window and offset is divided by FACTOR, and the windows of days by DAYS_FACTOR. The recording rules that
only remember a value keep their windows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.alerts.runbooks import AUDITOR_RULES, PAGE_RULES, RULES

FACTOR: Final = 120
DAYS_FACTOR: Final = 3_600
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = r"(\d+)([smhd])\b"
_IN_EXPRESSION: Final = re.compile(rf"(\[|\boffset ){_DURATION}")


def parse_seconds(duration: str) -> int:
    """Return the seconds of a duration of the rules, such as `10m`."""
    found = re.fullmatch(_DURATION, duration)
    assert found, duration
    return int(found[1]) * _UNITS[found[2]]


def choose_factor(rule: dict[str, Any]) -> int:
    """Return the divisor of the times of a rule."""
    if "alert" in rule:
        return FACTOR
    return DAYS_FACTOR if "increase" in rule["record"] else 1


def _shorten(duration: str, factor: int) -> str:
    return f"{max(1, round(Fraction(parse_seconds(duration) * 1_000, factor)))}ms"


def _scale(rule: dict[str, Any]) -> dict[str, Any]:
    factor = choose_factor(rule)

    def shorten(found: re.Match[str]) -> str:
        return found[1] + _shorten(found[2] + found[3], factor)

    scaled = rule | {"expr": _IN_EXPRESSION.sub(shorten, rule["expr"])}
    return scaled | ({"for": _shorten(rule["for"], factor)} if "for" in rule else {})


def write_scaled_rules(folder: Path) -> list[Path]:
    """Write the rules with shorter times into a folder, and return the files."""
    return [_write(source, folder / source.name, _scale) for source in (RULES, AUDITOR_RULES, PAGE_RULES)]


def _write(source: Path, file: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
    tree = yaml.safe_load(source.read_text(encoding="utf-8"))
    for group in tree["groups"]:
        group["rules"] = [change(rule) for rule in group["rules"]]
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file
