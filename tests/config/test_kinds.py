"""Validation of hot spots, dwell times and lower bounds, and what they cost.

The rules about designated times and names are those of `at_times`, which test_rules.py checks.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.config.derive_parameters import derive_parameters
from monitor.config.registry import Locations
from monitor.config.valid_config import validate_config
from monitor.config.worst_payment import compute_charges, compute_max_lead
from monitor.errors import ConfigError
from monitor.kinds.at_times.monitor import AtTimesMonitor
from monitor.kinds.dwell.monitor import Dwell, DwellMonitor
from monitor.kinds.hot_spots.monitor import HotSpotsMonitor
from monitor.operate.check.compute_report import compute_report
from monitor.privacy.dwell import DwellRule
from monitor.time.instants import DAY
from tests.builders import select
from tests.config.conftest import ABSENT

PLACES: Final = Locations(("shibuya", "shinjuku"))
TIMED: Final[dict[str, Any]] = {"at": ["18:00"], "timezone": "Asia/Tokyo", "reporting_horizon": "2d", "epsilon": "1/3"}
KINDS: Final[dict[str, dict[str, Any]]] = {
    "hot_spots": {"name": "busiest", "kind": "hot_spots", "top": 5, **TIMED},
    "dwell": {"name": "lengths", "kind": "dwell", "longest_visit": "2h", **TIMED},
}


def replace(kind: str, **changes: object) -> dict[str, Any]:
    """Return the changes that replace the second monitor of the valid configuration by one of this kind."""
    return {"monitors.1": dict(KINDS[kind]), **{f"monitors.1.{key}": value for key, value in changes.items()}}


def test_kinds_are_read(load: Any) -> None:
    """The kind selects the model; by default one visit per person counts, and there are no lower bounds."""
    busiest = load(replace("hot_spots", top=10_000)).monitors[1]  # more than the registry has
    assert isinstance(busiest, HotSpotsMonitor)
    assert (busiest.at, busiest.epsilon, busiest.reporting_horizon) == (("18:00",), Fraction(1, 3), 2 * DAY)
    config = load(replace("dwell"))
    assert isinstance(config.monitors[1], DwellMonitor)
    parameters = derive_parameters(config, PLACES.ids)
    assert [(monitor.name, monitor.rule) for monitor in select(parameters, Dwell)] == [
        ("lengths", DwellRule(Fraction(1, 3), 7_200, 1))
    ]
    evening, plain = (load(changes).monitors[1] for changes in ({"monitors.1.at_least": {"epsilon": "1/3"}}, {}))
    assert isinstance(evening, AtTimesMonitor)
    assert evening.at_least is not None
    assert evening.at_least.epsilon == Fraction(1, 3)
    assert plain.at_least is None


@pytest.mark.parametrize(
    ("kind", "key"),
    [*((kind, key) for kind in KINDS for key in ("at", "reporting_horizon", "epsilon")), ("hot_spots", "top"),
     ("dwell", "longest_visit")],
)  # fmt: skip
def test_required_keys(refusal: Any, kind: str, key: str) -> None:
    """A missing key without a default is refused."""
    assert refusal(replace(kind, **{key: ABSENT}))[f"monitors.1.{key}"].value == "missing"


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        *(("hot_spots", "top", top) for top in (0, -1, 2.5, True, "five")),
        ("hot_spots", "threshold", 5),
        *(("dwell", "longest_visit", length) for length in ("0s", "-1h", "1500ms", "366d", 7_200)),
        ("dwell", "visits_per_person", 0),
        ("dwell", "visits_per_person", 1.5),
        *(("dwell", "epsilon", epsilon) for epsilon in (0, 0.5, "1/1000000000")),
        ("dwell", "threshold", 3),
        ("dwell", "at_least", {"epsilon": 1}),
    ],
)
def test_invalid_values_are_refused(refusal: Any, kind: str, key: str, value: object) -> None:
    """Values that are not positive, a float, an ε at which noise cannot be drawn, and unknown keys are refused."""
    assert f"monitors.1.{key}" in refusal(replace(kind, **{key: value}))


@pytest.mark.parametrize(
    ("value", "key"),
    [({}, ".epsilon"), ({"epsilon": 1, "threshold": 3}, ".threshold"), (1, ""), (True, ""), ([], "")],
)
def test_other_shapes_are_refused(refusal: Any, value: object, key: str) -> None:
    """`at_least` is a mapping with the one key `epsilon`, and only `at_times` has it."""
    assert f"monitors.1.at_least{key}" in refusal({"monitors.1.at_least": value})
    assert refusal({"monitors.0.at_least": {"epsilon": 1}})["monitors.0.at_least"].value == "unknown"


@pytest.mark.promise(15)
def test_sum_includes_every_kind(load: Any) -> None:
    """Each designated time costs ε, or ε + ε_c with lower bounds: 14 evenings in 14 days, and 2 for the stations."""
    for kind in KINDS:
        config = load(replace(kind) | {"privacy.epsilon": "20/3"})
        assert config.monitors[1].count_most_times(config.privacy.period) == 14
        assert compute_charges(config)[1].amount == Fraction(14, 3)
        assert validate_config(config, PLACES).worst == 2 + Fraction(14, 3)
    with pytest.raises(ConfigError, match=r"busiest: 14/3 = 14 designated times × 1/3"):
        validate_config(load(replace("hot_spots") | {"privacy.epsilon": "13/2"}), PLACES)
    bounds = {"monitors.1.at_least": {"epsilon": "1/8"}, "privacy.epsilon": "100"}
    plain, bounded = load({}), load(bounds)
    before, after = (compute_charges(read)[1] for read in (plain, bounded))
    assert after.amount == before.amount + before.amount / plain.monitors[1].epsilon / 8
    parameters = derive_parameters(bounded, PLACES.ids)
    assert [(times.kind, times.name, times.epsilon) for times in parameters.charged_times] == [
        ("at_times", bounded.monitors[1].name, plain.monitors[1].epsilon),
        ("at_least", bounded.monitors[1].name, Fraction(1, 8)),
    ]


def test_report_explains_numbers(load: Any) -> None:
    """The report says how far a lower bound is below the number of people, and the noise of dwell times."""
    report = compute_report(
        validate_config(load({"monitors.1.at_least": {"epsilon": "1"}, "privacy.epsilon": "100"}), PLACES)
    )
    assert "lower bounds" in report.monitors[1].explanation
    without, bounds = (monitor["lower_bounds"] for monitor in report.to_tree()["monitors"])
    assert (bounds["epsilon"], bounds["below"]) == ("1", 3)
    assert without is None
    report = compute_report(validate_config(load(replace("dwell") | {"privacy.epsilon": "100"}), PLACES))
    noise = report.to_tree()["monitors"][1]["dwell"]
    assert noise["deviation"] == pytest.approx(4 / (1 / 3), rel=1e-3)
    assert (report.monitors[1].threshold, report.monitors[1].odds) == (None, ())
    assert noise["longest_visit"] == "2h"


@pytest.mark.promise(9, 10)
@pytest.mark.parametrize(
    ("ahead", "stay", "slots"), [("0s", "1ms", 1), ("0s", "1h", 1), ("1h", "15m", 2), ("2h", "61m", 4)]
)
def test_lead_has_the_default_stay(ahead: str, stay: str, slots: int, load: Any) -> None:
    """F is accept_ahead and default_stay, each in whole slots: a check-in that begins at the last moment fits in."""
    assert compute_max_lead(load({"visits.accept_ahead": ahead, "visits.default_stay": stay})) == slots
