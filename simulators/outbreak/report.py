"""The results as tables, for docs/outbreak.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from simulators.outbreak.compute import Tree

COMMAND: Final = "python -m simulators outbreak"

_SHOWN_WAYS: Final = ("2", "7")
"""The ε of the table of ways. The plot has all of them."""

_WHOLE: Final = 10
_COLUMNS: Final = (
    *("answers", "warned", "delay", "95 %", "false alarms", "“safe” overtaken", "for days", "paused", "hidden"),
    *("since", "ε paid"),
)
_RARE, _SHOWN_EARLIER = 3, (0, 4)
"""The T of which, as of k = 2, only some of the earlier reports are in the table."""


def render_results(results: Tree) -> str:
    """Return the part of the page that the command writes."""
    lines = [*_render_run(results)]
    if "service" in results:
        lines += ["### By the running service", "", *_render_service(results)]
        lines += ["### What `plan` promised, and what happened", "", *_render_plan(results["service"]["plan"])]
    meaning = "Each cell has what was warned about, and the false alarms."
    lines += ["### Other T and ε", "", *_render_grid(results["grid"], meaning, _show_warned)]
    meaning = "Each cell has the shares of alarms that were true, early and noise."
    lines += ["### True, early and noise", "", *_render_grid(results["grid"], meaning, _alarms)]
    lines += ["### Other windows, slots, reports and numbers of people", "", *_render_scenarios(results)]
    lines += ["### Designated times", "", *_render_designated(results["designated"])]
    lines += ["### Other private ways at the same ε", "", *_render_ways(results["ways"])]
    lines += ["### The noise of a number", "", *_render_noise(results["noise"])]
    return "\n".join([*lines, "### Wrong reports", "", *_render_corrections(results["corrections"])])


def _render_run(results: Tree) -> Iterator[str]:
    data = results["data"]
    early, median, late, latest = (f"{days:.1f}" for days in data["delays"])
    busiest = ", ".join(f"{people} or more at {places:,}" for people, places in data["busiest"].items())
    yield from ("```sh", f"{COMMAND} nz_locations_of_interest.csv.gz --service", "```", "")
    yield f"* {results['seconds']:,.0f} s elapsed, {results['processor_seconds']:,.0f} s of processor time."
    yield f"* {data['events']:,} events with valid times, {data['versions']:,} versions, {data['places']:,} places."
    yield (
        f"* From the end of a visit to its publication: {median} days (median); 5 % in {early}, 95 % in {late}, 99 % "
        f"in {latest} days."
    )
    yield f"* People in any 14 days, in hindsight: {busiest} places."
    if "service" in results:
        run = results["service"]
        yield (
            f"* The service decided {run['ticks']:,} ticks. The independent audit judged {run['safe']:,} answers "
            f'"safe" and {run["noisy"]:,} noisy counts: {run["false_safe"]:,} false "safe", {run["violations"]:,} '
            "violations."
        )
    yield ""


def _render_service(results: Tree) -> Iterator[str]:
    yield from _make_header(*_COLUMNS)
    delays = results["data"]["delays"]
    yield _make_row("published exactly", "100 %", _days(delays[1]), _days(delays[2]), "0", "", "", "0", "0", "0", "∞")
    for row in results["service"]["outcomes"]:
        again = f", k = {row['answers']}" if row["answers"] > 1 else ""
        yield _make_row(f"T = {row['threshold']}, ε = {row['epsilon']}{again}", *_show_outcome(row))
    noon = results["service"]["designated"]
    yield _make_row(
        f"12:30, T = 1, ε = {noon['epsilon']}",
        _share(noon["warned"]),
        _days(noon["delay_median"]),
        "",
        _short(noon["false_alarms"]),
        *[""] * 5,
        _paid(noon),
    )
    yield ""


def _show_outcome(row: Tree) -> Iterator[str]:
    yield from (_share(row["warned"]), _days(row["delay_median"]), _days(row["delay_95"]))
    yield _short(row["false_alarms"])
    yield f"{row['overtaken']:,} ({_share(row['overtaken'] / max(1, row['owed']))})"
    yield f"{row['overtaken_median']:.0f}, {row['overtaken_95']:.0f}"
    yield from (_share(row["paused"]), _share(row["hidden"]), _share(row["since"]), _paid(row))


def _paid(row: Tree) -> str:
    return f"{_short(row['worst'])}, {_short(row['median'])}"


def _render_plan(plan: Tree) -> Iterator[str]:
    yield f"The plan that comes first has T = {plan['threshold']} and ε = {plan['epsilon']}."
    yield ""
    yield from _make_header("figure", "promised", "happened")
    yield _make_row(
        "false alarms per 1,000 place-days while it answers",
        f"{plan['promised_false_alarms']:.2f}",
        f"{plan['false_alarms']:.2f}",
    )
    yield _make_row("an update is an alarm with T people", _share(plan["promised_alarm"]), _share(plan["alarm"]))
    yield _make_row("visits reported while in the window", _share(plan["promised_counts"]), _share(plan["counts"]))
    yield _make_row(
        "an empty place is silent (happened: also after true alarms)",
        _share(plan["promised_silence"]),
        _share(plan["silence"]),
    )
    yield ""


def _show_warned(row: Tree) -> str:
    return f"{_share(row['warned'])}, {_short(row['false_alarms'])}"


def _render_grid(grid: Sequence[Tree], meaning: str, show: Callable[[Tree], str]) -> Iterator[str]:
    """Yield a table by T and ε. `meaning` says what `show` returns for a cell."""
    yield meaning
    yield ""
    epsilons = list(dict.fromkeys(row["epsilon"] for row in grid))
    yield from _make_header("T", *(f"ε = {epsilon}" for epsilon in epsilons))
    for threshold in dict.fromkeys(row["threshold"] for row in grid):
        yield _make_row(str(threshold), *(show(row) for row in grid if row["threshold"] == threshold))
    yield ""


def _alarms(row: Tree) -> str:
    """Return the shares of alarms that were true, early and noise; a dash if there was no alarm."""
    numbers = [row[word] for word in ("true", "early", "noise")]
    return ", ".join(_share(number / sum(numbers)) for number in numbers) if sum(numbers) else "–"


def _render_scenarios(results: Tree) -> Iterator[str]:
    yield from _make_header("change", "T", "ε", "warned", "delay", "false alarms", "“safe” overtaken", "hidden")
    for row in results["variants"]:
        yield _make_row(row["variant"], *_show_scenario(row))
    for row in results["scenarios"]:
        if (row["threshold"] == _RARE or row["answers"] > 1) and row["earlier"] not in _SHOWN_EARLIER:
            continue
        people = f"1 + Poisson({row['extra_people']:g}) people" if row["extra_people"] else ""
        again = f", k = {row['answers']}" if row["answers"] > 1 else ""
        yield _make_row((people or f"reported {row['earlier']} days earlier") + again, *_show_scenario(row))
    yield ""


def _show_scenario(row: Tree) -> Iterator[str]:
    yield from (str(row["threshold"]), row["epsilon"], _share(row["warned"]), _days(row["delay_median"]))
    yield from (_short(row["false_alarms"]), _share(row["overtaken"] / max(1, row["owed"])), _share(row["hidden"]))


def _render_designated(rows: Sequence[Tree]) -> Iterator[str]:
    yield from _make_header("times per day", "T", "ε of a time", "visits covered", "warned", "false alarms", "ε paid")
    for row in rows:
        cells = (
            str(row["times"]),
            str(row["threshold"]),
            row["epsilon"],
            _share(row["covered"]),
            _share(row["warned"]),
        )
        yield _make_row(*cells, _short(row["false_alarms"]), _paid(row))
    yield ""


def _render_ways(rows: Sequence[Tree]) -> Iterator[str]:
    yield from _make_header(
        *("ε, T", "way", "warns from", "false “safe”", "warned", "delay"),
        *("true, early, noise", "false alarms", "ε paid"),
    )
    for row in rows:
        if row["epsilon"] in _SHOWN_WAYS:
            false = f"{row['false_safe']:,} of {row['at_threshold']:,}"
            cells = (row["way"], str(row["level"]), false, _share(row["warned"]), _days(row["delay_median"]))
            words = _alarms(row), _short(row["false_alarms"]), _paid(row)
            yield _make_row(f"{row['epsilon']}, {row['threshold']}", *cells, *words)
    yield ""


def _render_noise(rows: Sequence[Tree]) -> Iterator[str]:
    yield "The standard deviation of a published number from what it counts, over all ticks and places, in people. An"
    yield "upper bound is also too high, by the number after the sign on average."
    yield ""
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    yield from _make_header("way", *(f"ε = {epsilon}" for epsilon in epsilons))
    for way in dict.fromkeys(row["way"] for row in rows):
        yield _make_row(way, *(_error(row) for row in rows if row["way"] == way))
    yield ""


def _error(row: Tree) -> str:
    """Return the standard deviation of an error, with its mean for a way whose noise only adds."""
    is_bound = row["way"] == "upper bound"
    return f"{_short(row['error'])} + {_short(row['bias'])}" if is_bound else _short(row["error"])


def _render_corrections(found: Tree) -> Iterator[str]:
    outcome = found["outcome"]
    yield (
        f"{found['moved']} events changed their place, {found['retimed']} their times, "
        f"{found['days_to_correction']:.1f} days (median) after their publication. With every correction reported as a "
        f"further visit, at T = {outcome['threshold']} and ε = {outcome['epsilon']}: {found['wrong_place_days']:,} of "
        f"{found['counted_place_days']:,} place-days count only visits that were wrong; they caused "
        f"{found['wrong_alarms']:,} of {found['alarms']:,} alarms, and {found['wrong_pauses']:,} days of pause."
    )
    yield ""


def _make_header(*names: str) -> Iterator[str]:
    yield _make_row(*names)
    yield f"|---|{'--:|' * (len(names) - 1)}"


def _make_row(*cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _share(share: float) -> str:
    return f"{_short(100 * share)} %"


def _days(days: float) -> str:
    return "" if math.isnan(days) else f"{days:.1f}"


def _short(value: float) -> str:
    """Return two digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.2g}"
