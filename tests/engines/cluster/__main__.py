"""`make cluster`: run the scenario on the cluster that KUBECONFIG names, and print the ticks of each step.

It installs the chart, does to the service what happens to services, and removes all again. Every step works in one new
namespace; only the drain also keeps a node from new pods, for at most a minute. The first step that fails ends it, and
so does one that loses a tick or leaves it unknown, except while the service is removed: the exit code is then 1.

    VALUES     a file of further values of the chart, such as the name of an image
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from pathlib import Path

from tests.engines.cluster.cluster import find_programs, open_namespace
from tests.engines.cluster.steps import STEPS
from tests.engines.cluster.town import Town, read_values
from tests.engines.scenario import StepError, run


def main() -> int:
    """Run the scenario in a new namespace."""
    values, name = read_values(), f"location-monitor-{secrets.token_hex(3)}"
    values["podLabels"] = {"scenario": name}
    try:
        programs = find_programs()
        with tempfile.TemporaryDirectory() as folder, open_namespace(programs, name) as cluster:
            run(Town(cluster, values, Path(folder)), STEPS)
    except StepError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
