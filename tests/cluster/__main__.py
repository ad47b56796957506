"""`make cluster`: run the scenario on the cluster that KUBECONFIG names, and print the ticks of each step.

It installs the chart, does to the service what happens to services, and removes all again. Every step works in one new
namespace; only the drain also keeps a node from new pods, for at most a minute. The exit code is 1 if a step failed,
or if a tick was lost or unknown, except while the service is removed.

    VALUES     a file of further values of the chart, such as the name of an image
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.answers import Counted
from tests.cluster.cluster import StepError, find_programs, open_namespace, wait_until
from tests.cluster.steps import STEPS, Step
from tests.cluster.town import Town, read_values

HEAD = "| step | seconds | decided | lost | unknown |\n|---|---|---|---|---|"


def count(town: Town, step: Step, after: int) -> tuple[int, Counted]:
    """Wait until the last tick of a step is decided. Return it, and the numbers of ticks since another one.

    While the service is removed, the last tick is the last that it has decided.
    """
    ticks, last = town.ticks, town.ticks.find_last(time.time())
    if not step.loses:
        wait_until(lambda: max(town.read_answers()) >= last, f"an answer at {last}", 4 * ticks.slot)
    answers = town.read_answers()
    last = max(answers) if step.loses else last
    return last, ticks.count(answers, after or min(answers) - ticks.slot, last)


def run(town: Town) -> int:
    """Run all steps, also after one that failed. Return the exit code."""
    rows, last, failed = [HEAD], 0, False
    for step in STEPS:
        start = time.monotonic()
        try:
            step.do(town)
            last, counted = count(town, step, last)
            result = " | ".join(map(str, counted))
            failed |= not step.loses and counted.lost + counted.unknown > 0
        except StepError as error:
            print(f"{step.name}: {error}\n{town.cluster.kubectl('get', 'pods')}", file=sys.stderr, flush=True)
            failed, result = True, "failed | |"
        rows.append(f"| {step.name} | {time.monotonic() - start:.0f} | {result} |")
        print(rows[-1], flush=True)
        if not last:
            break
    print("\n".join(("", *rows)))
    return int(failed)


def main() -> int:
    """Run the scenario in a new namespace."""
    values, name = read_values(), f"location-monitor-{secrets.token_hex(3)}"
    values["podLabels"] = {"scenario": name}
    try:
        programs = find_programs()
        with tempfile.TemporaryDirectory() as folder, open_namespace(programs, name) as cluster:
            return run(Town(cluster, values, Path(folder)))
    except StepError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
