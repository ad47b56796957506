"""A small process that owns one server and its folder, and ends both when the program that asked for them is gone.

The program may die in any way, SIGKILL included: then its end of the pipe to this process closes, which the operating
system sees to. The guardian has a session of its own, so that Ctrl-C in a terminal reaches the program alone, which
then stops its servers in order. It needs the standard library alone and is run by its path, so that it starts fast.

Requests and answers are lines of JSON, one answer for each request:

    → (at the start)                                              {"folder": path}
    → {"do": "start", "argv": [...], "log": name}                 {"pid": n} or {"error": why}
    → {"do": "poll"}                                              {"exit": null while it runs, else its code}
    → {"do": "signal", "number": n, "wait_seconds": s}            {"exit": as above, after waiting so long at most}
    → end of file: the server is terminated, then killed, and the folder removed

Usage: guardian.py PREFIX GRACE_SECONDS OWNER (start of the folder's name; from SIGTERM to SIGKILL; its process id)
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ORPHAN_CHECK_SECONDS = 0.5


class Guardian:
    """Owns a temporary folder and at most one running server in it."""

    def __init__(self, folder: Path, grace_seconds: float) -> None:
        self._folder = folder
        self._grace_seconds = grace_seconds
        self._server: subprocess.Popen[bytes] | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request says."""
        match request["do"]:
            case "start":
                return self._start(request["argv"], request["log"])
            case "signal":
                self._signal(request["number"])
                return {"exit": self._wait(request["wait_seconds"])}
            case _:
                return {"exit": self._wait(0)}

    def close(self) -> None:
        """End the server, whatever state it is in, and remove the folder."""
        if self._server is not None and self._server.poll() is None:
            # A stopped process takes SIGTERM only once it continues.
            for number in (signal.SIGTERM, signal.SIGCONT):
                self._signal(number)
            if self._wait(self._grace_seconds) is None:
                self._signal(signal.SIGKILL)
                self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, argv: list[str], log: str) -> dict[str, Any]:
        try:
            with (self._folder / log).open("ab") as output:
                self._server = subprocess.Popen(  # noqa: S603 - argv is built by this package
                    argv, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
        except OSError as error:
            return {"error": str(error)}
        return {"pid": self._server.pid}

    def _signal(self, number: int) -> None:
        """Signal the server unless it has ended: as its parent this process knows that the id is not another's."""
        if self._server is not None:
            self._server.send_signal(number)

    def _wait(self, seconds: float) -> int | None:
        if self._server is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(seconds)
        return self._server.returncode


def requests(pipe: int, owner: int) -> Iterator[dict[str, Any]]:
    """Requests from a pipe, until its other end closes or the owner has gone.

    The owner's id is watched too: a process that the owner forked holds a copy of the pipe and would keep it open.
    """
    pending = b""
    while os.getppid() == owner:
        if not select.select([pipe], [], [], _ORPHAN_CHECK_SECONDS)[0]:
            continue
        data = os.read(pipe, 65536)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        yield from map(json.loads, lines)


def main() -> None:
    """Guard until the owner closes the pipe or is gone."""
    prefix, grace_seconds, owner = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    guardian = Guardian(folder, grace_seconds)
    try:
        _say({"folder": str(folder)})
        for request in requests(sys.stdin.fileno(), owner):
            _say(guardian.answer(request))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        guardian.close()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
