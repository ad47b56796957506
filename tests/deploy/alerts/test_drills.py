"""A drill for each alert on real servers, as test_runbooks.py does for two of them (`make soak`).

To add an alert: add its Drill here, or add it to NOT_CAUSED if one machine cannot cause its fault.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conftest import Eventually
from tests.deploy.alerts import faults
from tests.deploy.alerts.runbooks import AUDITOR_RULES, PAGE_RULES, RULES, alerts, find_anchor
from tests.deploy.alerts.site import Site, run_site
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

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


Fault = Callable[[Site, Callable[..., Any]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill of an alert: the fault that fires it. `spoils`: whether the site cannot be used afterwards."""

    alert: str
    fault: Fault
    spoils: bool = False


DRILLS: Final = (
    Drill("LocationMonitorTicksMissing", faults.foreign_member),
    Drill("LocationMonitorAnswersUnknown", faults.full_store),
    Drill("LocationMonitorReadingStalled", faults.full_store),
    Drill("LocationMonitorNotReady", faults.frozen_store),
    Drill("LocationMonitorFactsLate", faults.stalling_store),
    Drill("LocationMonitorTicksNotDecided", faults.full_store),
    Drill("LocationMonitorStoresDiffer", faults.other_store),
    Drill("LocationMonitorInstancesDiffer", faults.other_key),
    Drill("LocationMonitorDeadLetters", faults.refused_visits),
    Drill("LocationMonitorInputRecordsLost", faults.lost_input),
    Drill("LocationMonitorAbsent", faults.stopped_service),
    Drill("LocationMonitorAuditorAbsent", faults.stopped_auditor),
    Drill("LocationMonitorPageAbsent", faults.stopped_page),
    Drill("LocationMonitorPageNotWritten", faults.unwritable_page),
    Drill("LocationMonitorPageStale", faults.frozen_broker),
    Drill("LocationMonitorPageNotVerified", faults.forged_answer, spoils=True),
    Drill("LocationMonitorAuditTicksMissing", faults.lost_ticks),
    Drill("LocationMonitorAuditIncomplete", faults.wrong_configuration),
    Drill("LocationMonitorAuditorCutOff", faults.hanging_transaction),
    Drill("LocationMonitorAuditorNoSuccess", faults.hanging_transaction),
    Drill("LocationMonitorAuditFinding", faults.stranger, spoils=True),
    Drill("LocationMonitorLedgerAhead", faults.ledger_ahead, spoils=True),
)

NOT_CAUSED: Final = ("LocationMonitorRecordsLate",)
"""The alerts whose fault one machine cannot cause. docs/runbooks.md states the reasons."""


QUIET_SECONDS = 400.0
DETECT_SECONDS = 240.0
CLEAR_SECONDS = 400.0


class Sites:
    """The site of the drills. A spoiled one is replaced."""

    def __init__(self, make_folder: Callable[[], Path], kafka: SharedKafka, eventually: Eventually) -> None:
        self._make_folder, self._kafka, self._eventually = make_folder, kafka, eventually
        self._stack = ExitStack()
        self._site: Site | None = None

    def get(self) -> Site:
        """Return a sound site."""
        if self._site is None:
            folder = self._make_folder()
            rules = write_scaled_rules(folder)
            made = run_site(folder, self._kafka, self._eventually, rules, audited=True, scrape="1s")
            self._site = self._stack.enter_context(made)
        return self._site

    def discard(self) -> None:
        """End the site."""
        self._site = None
        self._stack.close()


@pytest.fixture(scope="module")
def sites(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Sites]:
    """The site of the drills."""
    made = Sites(lambda: tmp_path_factory.mktemp("drill"), kafka, eventually)
    yield made
    made.discard()


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.alert)
def test_drill(sites: Sites, drill: Drill, eventually: Eventually) -> None:
    """The fault fires the alert, the commands of the runbook run meanwhile, and the alert clears afterwards."""
    site, alert = sites.get(), drill.alert
    (runbook,) = (find_anchor(rule) for rule in alerts() if rule["alert"] == alert)
    try:
        eventually(lambda: alert not in site.firing() and site.ready() and site.ready("auditor"), QUIET_SECONDS)
        site.began = time.monotonic()
        with drill.fault(site, eventually):
            eventually(lambda: alert in site.firing(), DETECT_SECONDS)
            detected = time.monotonic() - site.began
            assert site.run_commands(runbook)
            ended = time.monotonic()
        eventually(lambda: alert not in site.firing(), CLEAR_SECONDS)
    except BaseException:
        sites.discard()
        raise
    print(f"{alert}: fired after {detected:.0f} s, cleared after {time.monotonic() - ended:.0f} s")
    if drill.spoils:
        sites.discard()


def test_every_alert_has_a_drill() -> None:
    """Each alert has one drill, or is one whose fault one machine cannot cause."""
    assert sorted([*(drill.alert for drill in DRILLS), *NOT_CAUSED]) == sorted(rule["alert"] for rule in alerts())
