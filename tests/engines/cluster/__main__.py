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
            return int(not run(Town(cluster, values, Path(folder)), STEPS))
    except StepError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
