"""The entry for a registry of differential privacy deployments, with the fields of OpenDP's registry as of 2026.

The registry is the repository opendp/deployments-registry-data, and its schema is `schemas/deployments-schema.yaml`
there. An entry is one YAML file. `tests/operate/register/` checks entries against the fields of that schema.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from string import Template
from typing import Any, Final

import yaml

from monitor import __version__
from monitor.operate.check.report import ASSUMPTION
from monitor.operate.register.figures import (
    TEMPLATES,
    Figures,
    MonitorFigures,
    Publisher,
    fill_in,
    format_factor,
)
from monitor.privacy.epsilon import format_epsilon
from monitor.values.wording import spell_duration, spell_rhythm

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
_NOISE: Final = (
    "One-sided geometric noise, which is never negative: Algorithms 3 and 4 of Asymmetric Differential Privacy, with "
    "whole numbers."
)
_DRAWN: Final = (
    "Noise is drawn with integers from the randomness of the operating system, so no floating-point number is involved."
)
_PLATFORM: Final = "Answers leave at a fixed delay after each interval. Person ids are stored as keyed hashes."


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
    """Return the entry as a tree of mappings, lists and scalars: the template, with texts as JSON strings."""
    values = {**_describe_product(figures, publisher), **_describe_privacy(figures), **_describe_service(figures)}
    written = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    template = (TEMPLATES / "registry-entry.yaml").read_text(encoding="utf-8")
    entry: dict[str, Any] = yaml.safe_load(Template(template).substitute(written))
    return entry


def _describe_product(figures: Figures, publisher: Publisher) -> Mapping[str, str]:
    name, curator = figures.report.service, fill_in(publisher.curator, "the name of the publishing body")
    return {
        "slug": re.sub(r"[^a-z0-9]+", "-", f"safe places {name} {publisher.published.year}".lower()),
        "title": f"Safe places: {name}",
        "curator": curator,
        "curator_type": publisher.curator_type,
        "questions": _join_lines(monitor.words.ask() for monitor in figures.monitors),
        "region": fill_in(publisher.region, "the region that the places are in, and its law"),
        "sector": publisher.sector,
        "published": publisher.published.isoformat(),
        "actors": _join_lines((f"The curator ({curator}). {_TRUSTED}", *_OTHERS)),
        "author": fill_in(publisher.author, "who files this entry"),
    }


def _describe_privacy(figures: Figures) -> Mapping[str, str | float]:
    period = spell_duration(figures.report.period)
    only_two_sided = all(monitor.words.in_both_directions for monitor in figures.monitors)
    return {
        "variant": "Pure DP" if only_two_sided else "Custom",
        "domain": f"{_DOMAIN} {ASSUMPTION}",
        "unprotected": _join_lines((*_UNPROTECTED, *([_CONSENT] if figures.has_lower_bounds else []))),
        "unit": f"Person, within any {period}",
        "relation": _describe_relation(figures, period),
        "epsilon": _round_up(figures.report.stated),
        "loss": _describe_loss(figures, period),
    }


def _describe_relation(figures: Figures, period: str) -> str:
    """Describe the privacy relation, which an entry with a custom variant has to specify."""
    text = (
        "(P, ε)-asymmetric differential privacy. Input metric: a neighbour of a dataset lacks some or all visits of "
        f"one person within any {period}; the distance is 1. Output measure: the largest logarithm of Pr[output | "
        "dataset] / Pr[output | neighbour]; it is bounded by ε. The bound has only this direction: presence is "
        "protected, absence is not."
    )
    return " ".join((text, *(relation for relation, _noise in figures.in_both_directions)))


def _describe_loss(figures: Figures, period: str) -> str:
    report = figures.report
    sums = " + ".join(f"{format_epsilon(each.charge.amount)} ({each.name})" for each in report.monitors)
    worst = f"{format_epsilon(report.total)} = {sums}, for a person who is everywhere, all the time."
    stated = f"Stated for any {period}: ε = {format_epsilon(report.stated)}. The worst case of this configuration is"
    details = [f"{stated} {worst}"]
    for each in figures.monitors:
        paid, factor = format_epsilon(each.report.one_visit), format_factor(each.report.one_visit)
        details.append(f"{each.report.name}: one visit costs at most ε = {paid} for each {each.report.per} ({factor}).")
    if figures.has_threshold:
        details.append("The answer 'safe' costs nothing: only published numbers cost ε.")
    if report.overlap is not None:
        details.append(report.overlap.describe())
    return _join_lines(details)


def _describe_service(figures: Figures) -> Mapping[str, str]:
    two_sided = [noise for _relation, noise in figures.in_both_directions]
    key = figures.valid.config.signing.public_key
    signed = [] if key is None else [f"Answers are signed with the key {key}."]
    software = f"Software: location-monitor {__version__}. {_DRAWN}"
    return {
        "releases": f"Answers are published {spell_rhythm(figures.valid.config.clock.slot)}. What a person may pay "
        f"within any {spell_duration(figures.report.period)} is bounded by privacy.epsilon, even if the monitors "
        "change: a new configuration is refused until the sum fits.",
        "kept": f"Visits arrive all the time, and are kept for {spell_duration(figures.input_kept)}.",
        "mechanisms": _join_lines((_NOISE, *two_sided, software, _PLATFORM, *signed)),
        "composition": _join_lines(f"{each.name}: {each.explanation}" for each in figures.report.monitors),
        "compared": "A noisy count below the threshold is published as 'safe'; any other noisy count is published."
        if figures.has_threshold
        else "Numbers are published as they are drawn.",
        "justification": fill_in(None, "why these places, thresholds and values of ε were chosen"),
        "utility": _join_lines(_describe_utility(each) for each in figures.monitors),
    }


def _describe_utility(monitor: MonitorFigures) -> str:
    alarms = f" False alarms at an empty place: {monitor.alarms}." if monitor.alarms else ""
    return f"{monitor.report.name}: {monitor.words.describe_width()}{alarms}"


def _join_lines(lines: Iterable[str]) -> str:
    """Return Markdown: a single line as it is, several lines as a list."""
    texts = list(lines)
    return texts[0] if len(texts) == 1 else "".join(f"- {text}\n" for text in texts)


def _round_up(epsilon: Fraction) -> float:
    """Return the smallest float that is not below ε: a published bound must not be too low."""
    value = float(epsilon)
    return value if Fraction(value) >= epsilon else math.nextafter(value, math.inf)
