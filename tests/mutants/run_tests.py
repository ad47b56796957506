"""Run tests of the current folder, which is a copy of this repository.

Usage: run_tests.py PLUGIN TEST…

The process is forked (see tests/forking.py), so Python has not read the environment as it does at its start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    sys.dont_write_bytecode = True
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--no-header", "--tb=line", "-m", ""]
    # pytest cannot rewrite the assertions of hypothesis, which is imported already, and does not need to.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    plugin, *tests = sys.argv[1:]
    os.environ.pop("PYTEST_ADDOPTS", None)  # options of the outer run would change the output that is judged
    sys.exit(pytest.main(["-p", plugin, *options, *tests]))
