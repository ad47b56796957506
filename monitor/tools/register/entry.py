"""The entry for a registry of differential privacy deployments, with the fields of OpenDP's registry as of 2026.

The registry is the repository opendp/deployments-registry-data, and its schema is `schemas/deployments-schema.yaml`
there. An entry is one YAML file. `tests/tools/register/` checks entries against the fields of that schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

import yaml

from monitor import __version__
from monitor.privacy.epsilon import format_epsilon
from monitor.tools.check.report import ASSUMPTION
from monitor.tools.check.wording import spell_duration
from monitor.tools.register.figures import Figures, MonitorFigures, format_factor, spell_rhythm
from monitor.tools.register.publisher import Publisher, fill_in

_METHOD: Final = {
    "evidence_source_type": "Other public source",
    "misc": {"author": "S. Takagi, Y. Cao, M. Yoshikawa", "title": "Asymmetric Differential Privacy"},
}
_DOMAIN: Final = "Streams of visits. A visit has a person, a place of the public list, an arrival and a departure."
_UNPROTECTED: Final = (
    "The settings, such as places, designated times, thresholds and ε: they are public, and chosen without the data.",
    "That a person was absent: an answer may show that somebody was not at a place.",
    "Whether an answer is 'unknown', and how long it takes: both depend on the load.",
)
_CONSENT: Final = "Visits with consent: lower bounds may reveal them."
_TRUSTED: Final = (
    "It reads the visits and runs the service. People have to trust it and everyone who operates its servers."
)
_OTHERS: Final = (
    "The senders of visits, who know where reported people were.",
    "The public reads all answers. It is not trusted: it may know everything about all other people.",
)
_PREPROCESSING: Final = (
    "Each invalid visit is refused on its own, by public rules. Settings are chosen from targets and public facts, not "
    "from the data."
)
_NOISE: Final = (
    "One-sided geometric noise, which is never negative: Algorithms 3 and 4 of Asymmetric Differential Privacy, with "
    "whole numbers."
)
_DRAWN: Final = (
    "Noise is drawn with integers from the randomness of the operating system, so no floating-point number is involved."
)
_PLATFORM: Final = "Answers leave at a fixed delay after each interval. Person ids are stored as keyed hashes."
_COMPARED: Final = "A noisy count below the threshold is published as 'safe'; any other noisy count is published."


class _Dumper(yaml.SafeDumper):
    """A dumper that writes texts of several lines as blocks, which reviewers can read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(entry: dict[str, Any]) -> str:
    """Return the entry as YAML, as the registry stores it."""
    return yaml.dump(entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def build_entry(figures: Figures, publisher: Publisher) -> dict[str, Any]:
    """Return the entry as a tree of mappings, lists and scalars."""
    name = figures.report.service
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"safe places {name} {publisher.published.year}".lower()),
        "deployment": {
            "basic": _describe_product(figures, publisher),
            "dp_variant": _describe_variant(figures),
            "privacy_loss": _describe_loss(figures),
            "deployment_model": _describe_model(figures, publisher),
            "implementation": _describe_implementation(figures),
            "administrative": {
                "evidence_sources": {"method": _METHOD},
                "status": "Draft",
                "registry_authors": [fill_in(publisher.author, "who files this entry")],
                "tier": 3,
            },
        },
    }


def _describe_product(figures: Figures, publisher: Publisher) -> dict[str, Any]:
    return {
        "name": f"Safe places: {figures.report.service}",
        "data_curators": [
            {
                "data_curator_name": fill_in(publisher.curator, "the name of the publishing body"),
                "data_curator_type": publisher.curator_type,
            }
        ],
        "description": _join_lines(monitor.asks for monitor in figures.monitors),
        "intended_use": "Tell the public which places are safe to visit, without revealing where infected people were.",
        "data_product_type": "Summary statistics",
        "data_product_region": fill_in(publisher.region, "the region that the places are in, and its law"),
        "data_product_sector": publisher.sector,
        "publication_date": publisher.published.isoformat(),
    }


def _describe_variant(figures: Figures) -> dict[str, Any]:
    only_two_sided = all(monitor.report.kind == "dwell" for monitor in figures.monitors)
    return {
        "variant_name": "Pure DP" if only_two_sided else "Custom",
        "data_domain": f"{_DOMAIN} {ASSUMPTION}",
        "unprotected_quantities": _join_lines((*_UNPROTECTED, *([_CONSENT] if figures.has_lower_bounds else []))),
    }


def _describe_loss(figures: Figures) -> dict[str, Any]:
    report, period = figures.report, spell_duration(figures.report.period)
    sums = " + ".join(f"{format_epsilon(each.charge.amount)} ({each.name})" for each in report.monitors)
    worst = f"{format_epsilon(report.total)} = {sums}, for a person who is everywhere, all the time."
    stated = f"Stated for any {period}: ε = {format_epsilon(report.stated)}. The worst case of this configuration is"
    details = [f"{stated} {worst}", *(_describe_visit(monitor) for monitor in figures.monitors)]
    if figures.has_threshold:
        details.append("The answer 'safe' costs nothing: only published numbers cost ε.")
    if report.overlap is not None:
        details.append(report.overlap.describe())
    return {
        "privacy_unit": f"Person, within any {period}",
        "privacy_unit_details": _describe_relation(figures, period),
        "privacy_parameters": {"epsilon": _round_up(report.stated)},
        "privacy_parameters_details": _join_lines(details),
    }


def _describe_visit(monitor: MonitorFigures) -> str:
    paid, factor = format_epsilon(monitor.one_visit), format_factor(monitor.one_visit)
    return f"{monitor.report.name}: one visit costs at most ε = {paid} for each {monitor.per} ({factor})."


def _describe_relation(figures: Figures, period: str) -> str:
    """Describe the privacy relation, which an entry with a custom variant has to specify."""
    text = (
        "(P, ε)-asymmetric differential privacy. Input metric: a neighbour of a dataset lacks some or all visits of "
        f"one person within any {period}; the distance is 1. Output measure: the largest logarithm of Pr[output | "
        "dataset] / Pr[output | neighbour]; it is bounded by ε. The bound has only this direction: presence is "
        "protected, absence is not."
    )
    if figures.has_dwell:
        text += " Dwell times are protected in both directions."
    return text


def _describe_model(figures: Figures, publisher: Publisher) -> dict[str, Any]:
    rhythm, kept = spell_rhythm(figures.valid.config.clock.slot), spell_duration(figures.input_kept)
    curator = fill_in(publisher.curator, "the name of the publishing body")
    return {
        "model_name": "Central",
        "actors": _join_lines((f"The curator ({curator}). {_TRUSTED}", *_OTHERS)),
        "release_type": "Many releases",
        "release_type_details": f"Answers are published {rhythm}. What a person may pay within any "
        f"{spell_duration(figures.report.period)} is bounded by privacy.epsilon, even if the monitors change: a new "
        "configuration is refused until the sum fits.",
        "data_source_type": "Dynamic",
        "data_source_type_details": f"Visits arrive all the time, and are kept for {kept}.",
        "access_type": "Non-interactive",
    }


def _describe_implementation(figures: Figures) -> dict[str, Any]:
    two_sided = ["Two-sided geometric noise for dwell times."] if figures.has_dwell else []
    return {
        "preprocessing_and_hyperparameter_tuning": _PREPROCESSING,
        "mechanisms": _join_lines(
            (_NOISE, *two_sided, f"Software: location-monitor {__version__}. {_DRAWN}", _PLATFORM)
        ),
        "composition": _join_lines(f"{each.name}: {each.explanation}" for each in figures.report.monitors),
        "post_processing": _COMPARED if figures.has_threshold else "Numbers are published as they are drawn.",
        "justification": fill_in(None, "why these places, thresholds and values of ε were chosen"),
        "utility": _join_lines(_describe_utility(each) for each in figures.monitors),
    }


def _describe_utility(monitor: MonitorFigures) -> str:
    alarms = f" False alarms at an empty place: {monitor.alarms}." if monitor.alarms else ""
    return f"{monitor.report.name}: {monitor.width}{alarms}"


def _join_lines(lines: Iterable[str]) -> str:
    """Return Markdown: a single line as it is, several lines as a list."""
    texts = list(lines)
    return texts[0] if len(texts) == 1 else "".join(f"- {text}\n" for text in texts)


def _round_up(epsilon: Fraction) -> float:
    """Return the smallest float that is not below ε: a published bound must not be too low."""
    value = float(epsilon)
    return value if Fraction(value) >= epsilon else math.nextafter(value, math.inf)
