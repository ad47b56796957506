"""Describes what was published about one place, for the page of the place: in words, and as curves of upper bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup, escape

from monitor.client.answer_types import About, Answer
from monitor.page.current_places import find_mark
from monitor.page.history import Periods
from monitor.page.languages import Words
from monitor.time.instants import parse_instant, to_datetime

_WIDTH: Final = 600
_HEIGHT: Final = 120
_NO_TIME: Final = datetime.fromtimestamp(0, UTC)


def describe_period(period: Mapping[str, Any], words: Words) -> dict[str, str]:
    """Return a period in words: its state, the designated time if there is one, when it was published, and what."""
    answer, moment = _read_answer(period), period.get("time")
    times = [words.format_time(parse_instant(period[key])) if key in period else "" for key in ("since", "until")]
    published = times[0] if times[0] == times[1] else " – ".join(times).strip()
    return {
        "state": answer.state,
        "moment": "" if moment is None else words.format_time(parse_instant(moment)),
        "published": published if any(times) else words.texts["whole_time"],
        "label": words.texts[find_mark(answer)],
        "what": words.summarize(answer, answer.reason),
    }


def _read_answer(period: Mapping[str, Any]) -> Answer:
    """Return the answer of a period. A history does not say why an answer is unknown."""
    times = {key: to_datetime(parse_instant(period[key])) for key in ("resumes_at", "counted_since") if key in period}
    about = About(period["monitor"], period["kind"], None, _NO_TIME, period.get("threshold"), **times)
    most, least, fresh = (period.get(key) for key in ("count_at_most", "count_at_least", "since_at_most"))
    return Answer(period["state"], "input_incomplete", None, None, most, least or 0, about, since_at_most=fresh)


def draw_curves(periods: Periods, words: Words) -> list[dict[str, Any]]:
    """Return the upper bounds of each monitor that has several, as a line (SVG) with its description."""
    by_monitor: dict[str, Periods] = {}
    for period in reversed(periods):
        if period["state"] == "bounded" and "since" in period:
            by_monitor.setdefault(period["monitor"], []).append(period)
    return [_draw(each, words) for each in by_monitor.values() if len(each) > 1]


def _draw(bounds: Sequence[Mapping[str, Any]], words: Words) -> dict[str, Any]:
    counts = [bound["count_at_most"] for bound in bounds]
    since, until = (words.format_time(parse_instant(bound["since"])) for bound in (bounds[0], bounds[-1]))
    label = words.texts["curve"].format(since=since, until=until, least=min(counts), most=max(counts))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in trace([parse_instant(one["since"]) for one in bounds], counts))
    line = f'<polyline points="{escape(points)}" vector-effect="non-scaling-stroke"/>'
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true"'
    return {"svg": Markup(f"<svg {box}>{line}</svg>"), "label": label}  # noqa: S704  # numbers only


def trace(since: Sequence[int], counts: Sequence[int]) -> list[tuple[float, float]]:
    """Return the points of a curve in steps, as `static/curve.js` does. The last step is as long as an average one."""
    length = (since[-1] - since[0]) / max(1, len(since) - 1)
    scale, most = _WIDTH / max(1, since[-1] + length - since[0]), max(1, *counts)
    ends = [*since[1:], since[-1] + length]
    return [
        ((at - since[0]) * scale, _HEIGHT - _HEIGHT * count / most)
        for begin, end, count in zip(since, ends, counts, strict=True)
        for at in (begin, end)
    ]
