"""The public notice and the draft of an impact assessment: templates in Markdown, filled with figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from string import Template
from typing import Final

from monitor import __version__
from monitor.kinds.all_kinds import KINDS
from monitor.operate.check.belief_picture import Labels, draw_beliefs
from monitor.operate.check.report import APART
from monitor.operate.register.figures import (
    TEMPLATES,
    Figures,
    MonitorFigures,
    Publisher,
    fill_in,
    format_factor,
)
from monitor.privacy.epsilon import format_epsilon
from monitor.values.belief_about_one_person import PRIORS, format_belief
from monitor.values.wording import format_percent, spell_duration, spell_rhythm

_BELIEFS: Final = Labels(
    "The chance that somebody gives a visit of yours",
    "chance before any answer",
    "chance after all answers, at most",
)
_CONSENT: Final = (
    "**If you agreed.** Some people agreed that a visit of theirs is counted publicly. These visits are counted in "
    'numbers of the form "at least 3 people who agreed were here". The numbers may reveal that somebody agreed. They '
    "do not reveal that you refused."
)


def write_notice(figures: Figures, publisher: Publisher) -> str:
    """Return the notice to the public, as Markdown."""
    return _fill("notice.md", figures, publisher)


def write_assessment(figures: Figures, publisher: Publisher) -> str:
    """Return the draft of a data protection impact assessment, as Markdown."""
    return _fill("assessment.md", figures, publisher)


def _fill(name: str, figures: Figures, publisher: Publisher) -> str:
    template = Template((TEMPLATES / name).read_text(encoding="utf-8"))
    text = template.substitute(
        _collect_common(figures, publisher), **_write_tables(figures), **_describe_limits(figures)
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _collect_common(figures: Figures, publisher: Publisher) -> dict[str, str]:
    config, report = figures.valid.config, figures.report
    return {
        "service": report.service,
        "version": __version__,
        "curator": fill_in(publisher.curator, "the name of the publishing body"),
        "contact": fill_in(publisher.contact, "an address for questions"),
        "region": fill_in(publisher.region, "the region that the places are in, and its law"),
        "published": publisher.published.isoformat(),
        "places": str(report.locations),
        "rhythm": spell_rhythm(config.clock.slot),
        "period": spell_duration(report.period),
        "stated": format_epsilon(report.stated),
        "stated_factor": format_factor(report.stated),
        "worst": format_epsilon(report.total),
        "input_kept": spell_duration(figures.input_kept),
        "output_kept": spell_duration(figures.output_kept),
        "default_stay": spell_duration(config.visits.default_stay),
        "visits_topic": config.kafka.topics.visits,
        "dead_letters_topic": config.kafka.topics.dead_letters,
        "alerts_topic": config.kafka.topics.alerts,
    }


def _write_tables(figures: Figures) -> dict[str, str]:
    return {
        "questions": "\n".join(f"* **{each.report.name}**: {each.words.ask()}" for each in figures.monitors),
        "payments": _write_table(("situation", "ε", "answers are at most"), _list_payments(figures)),
        "beliefs": _write_table(("before any answer", "after one answer", "after all answers"), _list_beliefs(figures)),
        "picture": draw_beliefs(figures.report.stated, _BELIEFS),
        "numbers": _write_table(("monitor", "how far a number may be from the truth"), _list_widths(figures.monitors)),
        "alarms": _write_table(
            ("monitor", "threshold", "a number although nobody was there"), _list_alarms(figures.monitors)
        ),
        "sums": _write_table(("monitor", "kind", "ε", "charge", "why"), _list_sums(figures)),
        "warnings": "\n".join(f"* {text}" for text in figures.report.warnings) or "`check` prints no warning.",
    }


def _describe_limits(figures: Figures) -> dict[str, str]:
    overlap = figures.report.overlap
    return {
        "overlap": "" if overlap is None else overlap.describe(),
        "stays": _describe_stays(figures),
        "signed": _describe_signing(figures.valid.config.signing.public_key),
        "consent": _CONSENT if figures.has_lower_bounds else "",
        "meanings": "\n".join(_list_meanings(figures)),
    }


def _describe_signing(public_key: str | None) -> str:
    """Return the key with which readers verify the answers; nothing if they are not signed."""
    if public_key is None:
        return ""
    return f" They are signed, so that nobody can alter them unseen, with the key `{public_key}`."


def _describe_stays(figures: Figures) -> str:
    """Describe at how many places a person may count at once, because of visits without a departure."""
    stay = spell_duration(figures.valid.config.visits.default_stay)
    text = f"A visit without a reported departure counts as {stay} long."
    overlap = figures.report.overlap
    if overlap is None or overlap.places == 1:
        return text
    return (
        f"{text} A person who checks in elsewhere every {spell_duration(APART)} may then count at {overlap.places} "
        f"places at once, and pay {overlap.places} times."
    )


def _list_meanings(figures: Figures) -> Iterator[str]:
    """Yield a line for each kind of answer that this configuration can give."""
    kinds = {monitor.report.kind for monitor in figures.monitors}
    if figures.has_threshold:
        yield (
            '* **"Safe"** is certain: fewer reported people than the threshold were there. It says nothing about '
            "people who were not reported, and it is no promise of health."
        )
        yield (
            "* **A number** is an upper bound: at most this number of reported people were there. There may have been "
            "far fewer, or nobody: a number is not proof that anyone was there."
        )
    yield from (each.words.meaning for kind, each in KINDS.items() if kind in kinds and each.words.meaning)
    yield '* **"Unknown"** means that not all reports were read in time. It does not mean "safe".'


def _list_payments(figures: Figures) -> Iterator[Sequence[str]]:
    """Yield rows of what a person pays: the situation, ε and e^ε."""
    if figures.has_threshold:
        names = ", ".join(f"`{each.report.name}`" for each in figures.monitors if each.report.threshold is not None)
        yield f"every place where you were is called safe ({names})", "0", format_factor(figures.report.total * 0)
    for each in figures.monitors:
        situation = f"one visit is counted in a number of `{each.report.name}`, for each {each.report.per}"
        yield situation, format_epsilon(each.report.one_visit), format_factor(each.report.one_visit)
    period = spell_duration(figures.report.period)
    total = figures.report.total
    yield f"you are everywhere you could be, for {period}", format_epsilon(total), format_factor(total)


def _list_beliefs(figures: Figures) -> Iterator[Sequence[str]]:
    """Yield rows of the chance that a reader gives a visit: before any answer, and at most after one and after all."""
    dearest = max(each.report.one_visit for each in figures.monitors)
    for before in PRIORS:
        after = (format_belief(epsilon, before) for epsilon in (dearest, figures.report.stated))
        yield format_percent(before), *after


def _list_widths(monitors: Iterable[MonitorFigures]) -> Iterator[Sequence[str]]:
    for monitor in monitors:
        yield monitor.report.name, monitor.words.describe_width()


def _list_alarms(monitors: Iterable[MonitorFigures]) -> Iterator[Sequence[str]]:
    for monitor in monitors:
        threshold = "none" if monitor.report.threshold is None else str(monitor.report.threshold)
        yield monitor.report.name, threshold, monitor.alarms or "no place is called safe, so there is no alarm"


def _list_sums(figures: Figures) -> Iterator[Sequence[str]]:
    for each in figures.report.monitors:
        epsilon, charge = format_epsilon(each.epsilon), format_epsilon(each.charge.amount)
        yield each.name, each.kind, epsilon, charge, each.charge.reason
    yield "all", "", "", format_epsilon(figures.report.total), f"at most ε = {format_epsilon(figures.report.stated)}"


def _write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
