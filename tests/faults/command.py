"""`location-monitor run`, as operators start it, as a program that tests can fork."""

from __future__ import annotations

import sys

from monitor.cli import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
