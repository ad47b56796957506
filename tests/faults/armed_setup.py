"""`location-monitor topics --create` that is killed at a failpoint.

armed_setup.py PLACE CONFIG [OPTION]…
"""

from __future__ import annotations

import os
import signal
import sys

from monitor.cli import main
from monitor.observe.failpoints import arm

if __name__ == "__main__":
    name, config, *options = sys.argv[1:]
    arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL))
    main(["topics", "--config", config, "--create", *options])
