"""What holds for all kinds: the lists of kinds agree, and configurations have the same digests as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.audit.kinds.all_kinds import KINDS as AUDITED
from monitor.config.valid_config import ValidConfig, load_valid_config
from monitor.kinds.all_answers import ANSWERS
from monitor.kinds.all_kinds import KINDS
from monitor.ledger.compute_payment import declare_charges
from monitor.operate.schema.command import build_alerts_schema
from monitor.records.output_records import TYPE_PREFIX
from monitor.store.fingerprint import compute_fingerprint, compute_published_fingerprint
from monitor.ticks.rollout import compute_version
from tests.kinds.examples import LENGTHS, MONITORS

ROOT: Final = Path(__file__).parents[2]
KIT: Final = ROOT / "tests" / "kit" / "configs"
TIMED: Final[dict[str, Any]] = {"timezone": "Asia/Tokyo", "reporting_horizon": "2d"}
EVERY_KIND: Final[list[dict[str, Any]]] = [
    MONITORS[LENGTHS] | {"at": ["2026-02-01T12:00:00Z"], "visits_per_person": 2, "epsilon": 1},
    {"name": "busiest", "kind": "hot_spots", "at": ["18:00"], "top": 5, "epsilon": "1/3", **TIMED},
    {"name": "plain", "kind": "at_times", "at": ["08:00"], "threshold": 7, "epsilon": "1/5", **TIMED},
    {"name": "weighted", "kind": "over_time", "locations": {"market": 3, "clinic": 1}, "threshold": 9, "window": "2d",
     "epsilon": "1/2", "answers_per_window": 2},
    {"name": "bounded", "kind": "at_times", "at": ["12:30", "18:00"], "threshold": 20, "epsilon": "1/7",
     "at_least": {"epsilon": "1/9"}, **TIMED},
    MONITORS[LENGTHS] | {"name": "longer", "longest_visit": "4h", "epsilon": 2},
    {"name": "places", "kind": "over_time", "locations": ["market", "station-central"], "threshold": 80, "window": "7d",
     "epsilon": 1},
]  # fmt: skip
"""Monitors of all kinds, in an order that mixes the kinds."""


def load(name: str, folder: Path) -> ValidConfig:
    """Load a configuration that is shipped, one of the tests' kit, or a town's with monitors of every kind."""
    if name != "every kind":
        return load_valid_config(ROOT / name if name.startswith("config/") else KIT / name, {})
    tree = yaml.safe_load((KIT / "demo.yaml").read_text(encoding="utf-8"))
    tree |= {"monitors": EVERY_KIND, "privacy": {"epsilon": 100, "period": "7d"}}
    tree["clock"]["origin"] = "2026-01-05T00:00:00Z"  # YAML reads it as a datetime
    tree["locations"]["file"] = str(ROOT / "config" / "demo-locations.csv")
    (folder / "config.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return load_valid_config(folder / "config.yaml", {})


@pytest.mark.parametrize(
    ("name", "fingerprint", "published", "version", "charges"),
    [
        ("demo.yaml", "012d5da0bb27fef3", "9b96e20ac2d3215c", "505b55ea6c9b1e87", "70a6f23021425aad"),
        ("city.yaml", "13152832c597b3f5", "7cca3e876dd043bf", "99fc3572f1703679", "775b83a339f81ad4"),
        ("config/demo.yaml", "c4918d433f30d092", "65172f6f6d757606", "588c6ff598435cd2", "6b2a6e1f56b0a03a"),
        ("config/city.yaml", "6de8f38f8ce5d8ac", "28e20d39cdb4970e", "f91b7e01de876438", "5d642dfc9975d3df"),
        ("config/secure.yaml", "6f7e3f2d6cc17890", "050afe3d49f6203f", "0d6c2647aad6e3e1", "7ca32fa120519932"),
        ("every kind", "4c2248a471ee9910", "40f24e31dbbb4342", "e9d301e04230563a", "db276120daa0b432"),
    ],
)
def test_digests_stay(name: str, fingerprint: str, published: str, version: str, charges: str, tmp_path: Path) -> None:
    """The digests of the same configuration stay: otherwise a new release reads the input again, and is another owner.

    They may change together with `FORMAT`, or with what answers cost.
    """
    parameters = load(name, tmp_path).parameters
    facts = compute_fingerprint(parameters, b"k" * 16, "topic-id")
    assert (
        facts,
        compute_published_fingerprint(parameters, "topic-id"),
        compute_version(parameters, facts),
        declare_charges(parameters).digest,
    ) == (fingerprint, published, version, charges)


def test_every_list_has_every_kind() -> None:
    """Each kind has an answer and an audit, and all lists have the same order."""
    answered = [ce_type.removeprefix(TYPE_PREFIX) for ce_type in ANSWERS]
    assert list(KINDS) == answered == list(AUDITED)


def test_audit_has_the_charges_of_each_kind() -> None:
    """The audit reads exactly the kinds of charges that the published schema has."""
    published = build_alerts_schema()["$defs"]["TimeCharges"]["properties"]["kind"]["enum"]
    assert sorted(charge for kind in AUDITED.values() for charge in kind.charged) == sorted(published)
