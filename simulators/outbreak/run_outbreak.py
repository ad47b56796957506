"""The command `python -m simulators outbreak`: run the bench, and write results, plots and the page."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from monitor.errors import FailedError
from monitor.operate.replay.progress import show_progress
from monitor.privacy.epsilon import format_epsilon
from simulators.experiments.plots import require_matplotlib, save
from simulators.experiments.run_experiments import measure_processor_seconds
from simulators.outbreak import grids
from simulators.outbreak.compute import (
    Bench,
    Tree,
    compare_plan,
    compute_corrections,
    compute_curves,
    compute_designated,
    compute_grid,
    compute_scenarios,
    compute_variants,
    compute_ways,
    describe_data,
    measure_noise,
    recommend,
    show,
)
from simulators.outbreak.designated import Designated
from simulators.outbreak.measure import measure
from simulators.outbreak.on_service import OverTimeSetting, ServiceRun, run_service
from simulators.outbreak.plots import draw_curves, draw_delays, draw_places
from simulators.outbreak.report import COMMAND, render_results
from simulators.outbreak.reports import Scenario, read_epidemic
from simulators.outbreak.ways import answer_one_sided
from simulators.write_results import replace_part

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command. `by_service`: also run the service, on a real Kafka and Valkey."""

    data: Path
    out: Path
    seed: int
    by_service: bool
    document: Path | None = None


def run_outbreak(options: Options, console: Console) -> None:
    """Run the bench, and write its results to `out` and, if given, to the page with its plots.

    Raises:
        UsageError: the data is invalid, or plots cannot be drawn.
        EmbeddedError, FailedError: the service could not be run, or the audit found a violation.
    """
    began = time.monotonic()
    require_matplotlib()
    bench = Bench(read_epidemic(options.data), options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    results, plots = _compute(bench, console)
    if options.by_service:
        run = _run_service(bench, console)
        results["service"] = _describe_run(bench, run)
        plots["outbreak-places"] = draw_places(bench.line, run.answers[grids.LIKELY.name], grids.LIKELY.threshold)
    results["seconds"], results["processor_seconds"] = time.monotonic() - began, measure_processor_seconds()
    (options.out / "outbreak.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    _write_plots(options, plots)
    if options.document is not None:
        replace_part(options.document, COMMAND, render_results(results))
    console.print(f"{results['seconds']:,.0f} s; the results are in {options.out / 'outbreak.json'}", highlight=False)
    violations = results.get("service", {}).get("violations", 0)
    if violations:
        raise FailedError(f"the audit found {violations} violations of promises: a bug")


def _compute(bench: Bench, console: Console) -> tuple[Tree, dict[str, Canvas]]:
    """Compute everything that does not need the running service."""
    with show_progress("Computing", None, "settings", console) as steps:
        counted = Bench(bench.epidemic, bench.seed, steps.advance)
        grid = list(compute_grid(counted))
        curves = list(compute_curves(counted, grid))
        results: Tree = {
            "data": describe_data(counted),
            "grid": grid,
            "variants": list(compute_variants(counted)),
            "scenarios": list(compute_scenarios(counted)),
            "designated": list(compute_designated(counted)),
            "ways": list(compute_ways(counted)),
            "noise": list(measure_noise(counted)),
            "corrections": compute_corrections(counted),
        }
        return results, {"outbreak-ways": draw_curves(curves), "outbreak-delays": _draw_delays(counted)}


def _draw_delays(bench: Bench) -> Canvas:
    lines = []
    for setting in (grids.LIKELY, grids.RARE):
        for earlier in (0, 2, 4):
            line = bench.make_line(Scenario(earlier=earlier * grids.DAYS.length))
            answers = answer_one_sided(line, setting.epsilon, setting.threshold, bench.noise)
            when = f"reported {earlier} days earlier" if earlier else "reported when published"
            lines.append((f"T = {setting.threshold}, {when}", line, answers))
            bench.on_step()
    return draw_delays(lines, bench.epidemic.delays)


def _run_service(bench: Bench, console: Console) -> ServiceRun:
    plan = recommend(bench.epidemic).plan
    planned = OverTimeSetting(plan.threshold, plan.epsilon, plan.design.answers)
    once = dict.fromkeys((grids.LIKELY, planned, grids.RARE))
    settings = (*once, *(setting.with_answers(grids.AGAIN) for setting in once))
    return run_service(bench.line, settings, Designated(bench.line, grids.AT_NOON), console)


def _describe_run(bench: Bench, run: ServiceRun) -> Tree:
    planned = recommend(bench.epidemic)
    mine = run.answers[OverTimeSetting(planned.plan.threshold, planned.plan.epsilon).name]
    return {
        "outcomes": [
            show(setting, measure(bench.line, run.answers[setting.name], setting.threshold)) for setting in run.settings
        ],
        "designated": {"epsilon": format_epsilon(grids.AT_NOON.epsilon), **asdict(run.designated.measure())},
        "plan": compare_plan(planned, bench.line, mine),
        "visits": run.summary.visits,
        "ticks": run.summary.ticks,
        "seconds": run.seconds,
        "audit_seconds": run.audit_seconds,
        "safe": run.report.safe,
        "noisy": run.report.noisy,
        "false_safe": run.report.totals.get("safe", 0),
        "violations": sum(run.report.totals.values()),
    }


def _write_plots(options: Options, plots: dict[str, Canvas]) -> None:
    folders = [options.out]
    if options.document is not None:
        folders.append(options.document.parent / "pictures")
    for name, canvas in plots.items():
        for folder in folders:
            folder.mkdir(exist_ok=True)
            save(canvas, folder / f"{name}.png")
