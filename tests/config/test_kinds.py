"""Validation of the answers about all places and of lower bounds, and what they cost.

The rules about designated times and names are those of `at_times`, which test_rules.py checks.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.config.charges_of_monitors import compute_charges, compute_max_lead
from monitor.config.derive_parameters import derive_parameters
from monitor.config.registry import Locations
from monitor.config.valid_config import validate_config
from monitor.errors import ConfigError
from monitor.kinds.all_kinds import KINDS
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.hot_spots.keys_and_parameters import HotSpotsMonitor
from monitor.operate.check.compute_report import compute_report
from monitor.time.instants import DAY
from tests.config.conftest import ABSENT
from tests.kinds.examples import LENGTHS, MONITORS, REFUSED

PLACES: Final = Locations(("shibuya", "shinjuku"))
TOTALS: Final = ("hot_spots", LENGTHS)
"""The kinds with one answer about all places at a designated time."""


def replace(kind: str, **changes: object) -> dict[str, Any]:
    """Return the changes that replace the second monitor of the valid configuration by one of this kind."""
    return {"monitors.1": dict(MONITORS[kind]), **{f"monitors.1.{key}": value for key, value in changes.items()}}


def test_kinds_are_read(load: Any) -> None:
    """The kind selects the model; by default there are no lower bounds."""
    busiest = load(replace("hot_spots", top=10_000)).monitors[1]  # more than the registry has
    assert isinstance(busiest, HotSpotsMonitor)
    assert (busiest.at, busiest.epsilon, busiest.reporting_horizon) == (("18:00",), Fraction(1, 3), 2 * DAY)
    evening, plain = (load(changes).monitors[1] for changes in ({"monitors.1.at_least": {"epsilon": "1/3"}}, {}))
    assert isinstance(evening, AtTimesMonitor)
    assert evening.at_least is not None
    assert evening.at_least.epsilon == Fraction(1, 3)
    assert plain.at_least is None


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (kind, key)
        for kind, each in KINDS.items()
        for key, field in each.keys.model_fields.items()
        if field.is_required() and key != "kind"
    ],
)
def test_required_keys(refusal: Any, kind: str, key: str) -> None:
    """A missing key without a default is refused."""
    assert refusal(replace(kind, **{key: ABSENT}))[f"monitors.1.{key}"].value == "missing"


@pytest.mark.parametrize(("kind", "key", "value"), REFUSED)
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
    for kind in TOTALS:
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
    """The report says how far a lower bound is below the number of people."""
    report = compute_report(
        validate_config(load({"monitors.1.at_least": {"epsilon": "1"}, "privacy.epsilon": "100"}), PLACES)
    )
    assert "lower bounds" in report.monitors[1].explanation
    without, bounds = (monitor["lower_bounds"] for monitor in report.to_tree()["monitors"])
    assert (bounds["epsilon"], bounds["below"]) == ("1", 3)
    assert without is None


@pytest.mark.promise(9, 10)
@pytest.mark.parametrize(
    ("ahead", "stay", "slots"), [("0s", "1ms", 1), ("0s", "1h", 1), ("1h", "15m", 2), ("2h", "61m", 4)]
)
def test_lead_has_the_default_stay(ahead: str, stay: str, slots: int, load: Any) -> None:
    """F is accept_ahead and default_stay, each in whole slots: a check-in that begins at the last moment fits in."""
    assert compute_max_lead(load({"visits.accept_ahead": ahead, "visits.default_stay": stay})) == slots
