"""A session of pytest that collects tests once, and runs some of them in a forked process per request.

Most of the time of a mutant would go into imports and collection. The requests and responses are lines of JSON:

    → {"changes": [fields of a Change, …], "tests": [names], "folder": path, "kafka": address or null}
                                    {"reports": [[id, phase, outcome, text], …], "error": text}

The first response, before any request, is the list of the tests that need Kafka. They share the given broker, because
a start of Kafka takes more CPU time than all the rest of a mutant.

Usage: forked_session.py FOLDER TEST…: a folder for temporary files, and all tests that requests may name
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest

from tests.mutants.in_memory import Functions, apply_changes, find_functions
from tests.mutants.mutants import Change, is_named

_OPTIONS: Final = ("-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--no-header", "--tb=short", "-s", "-m", "")


@dataclass(frozen=True)
class Broker:
    """The part of a Kafka broker that tests of mutants use."""

    bootstrap_servers: str


class Forks:
    """The plugin: replaces pytest's loop over the collected tests by one over the requests."""

    def __init__(self, requests: BinaryIO, responses: BinaryIO) -> None:
        self._requests, self._responses = requests, responses
        self._reports: list[tuple[str, str, str, str]] = []
        self._kafka: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a phase of a test."""
        self._reports.append((report.nodeid, report.when, report.outcome, report.longreprtext))

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> object | None:
        """Let the fixture `kafka` be the given broker."""
        if fixturedef.argname != "kafka" or self._kafka is None:
            return None
        fixturedef.cached_result = (Broker(self._kafka), fixturedef.cache_key(request), None)
        return fixturedef.cached_result[0]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork a process for each request, one after the other, and wait for its end."""
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        functions = find_functions()
        gc.collect()
        gc.freeze()  # a child's garbage collector need not look at what it shares with this process
        self._respond(kafka=[item.nodeid for item in session.items if "kafka" in getattr(item, "fixturenames", ())])
        for line in self._requests:
            if (pid := os.fork()) == 0:
                self._run(session, functions, **json.loads(line))
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status:
                self._respond(reports=[], error=f"the process of the mutant ended with code {status}")
        return True

    def _run(self, session: pytest.Session, functions: Functions, **request: Any) -> None:
        """Change the code, run the tests, and respond."""
        error = ""
        self._kafka = request["kafka"]
        try:
            apply_changes([Change(**change) for change in request["changes"]], functions, Path(request["folder"]))
            items = [item for item in session.items if is_named(item.nodeid, request["tests"])]
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except BaseException:  # noqa: BLE001  # the process ends here, and the error belongs to the response
            error = traceback.format_exc()
        self._respond(reports=self._reports, error=error)

    def _respond(self, **response: Any) -> None:
        self._responses.write(json.dumps(response).encode() + b"\n")
        self._responses.flush()


def main() -> int:
    """Collect the tests, then answer requests until the end of the input."""
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what tests print is not a response
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    folder, *tests = sys.argv[1:]
    options = [*_OPTIONS, f"--basetemp={folder}"]
    return int(pytest.main([*options, *tests], plugins=[Forks(requests, responses)]))


if __name__ == "__main__":
    sys.exit(main())
