"""A small process that owns one server and its folder. It ends the server and removes the folder when its owner ends.

The owner is the program that started the guardian. It may end in any way, including SIGKILL: the operating system then
closes its end of the pipe. The guardian runs in a separate session, so Ctrl-C in a terminal reaches only the owner,
which then stops its servers in order. The guardian uses only the standard library and is run by its path, so it starts
fast.

Requests and responses are lines of JSON, one response per request:

    → (at the start)                                              {"folder": path}
    → {"do": "start", "argv": [...], "log": name}                 {"pid": n} or {"error": reason}
    → {"do": "poll"}                                              {"exit": null while the server runs, else its code}
    → {"do": "signal", "number": n, "wait_seconds": s}            {"exit": as above, after at most s seconds}
    → end of file: the server is terminated, then killed, and the folder is removed

Usage: guardian.py PREFIX GRACE_SECONDS OWNER

    PREFIX: the start of the folder's name; GRACE_SECONDS: from SIGTERM to SIGKILL; OWNER: the owner's process id
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
    """The owner of a temporary folder and of at most one running server in it."""

    def __init__(self, folder: Path, grace_seconds: float) -> None:
        self._folder = folder
        self._grace_seconds = grace_seconds
        self._server: subprocess.Popen[bytes] | None = None

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handle one request and return the response."""
        match request["do"]:
            case "start":
                return self._start(request["argv"], request["log"])
            case "signal":
                self._signal(request["number"])
                return {"exit": self._wait(request["wait_seconds"])}
            case _:
                return {"exit": self._wait(0)}

    def close(self) -> None:
        """End the server, even if it is paused or hangs, and remove the folder."""
        if self._server is not None and self._server.poll() is None:
            # A stopped process receives SIGTERM only after SIGCONT.
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
        """Signal the server unless it has ended. The process id cannot be reused, since this process is the parent."""
        if self._server is not None:
            self._server.send_signal(number)

    def _wait(self, seconds: float) -> int | None:
        if self._server is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(seconds)
        return self._server.returncode


def read_requests(pipe: int, owner: int) -> Iterator[dict[str, Any]]:
    """Yield requests from a pipe until its other end is closed or the owner has ended.

    The parent's process id is checked too, because a process that the owner forked may keep a copy of the pipe open.
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
    """Guard a server until the owner closes the pipe or ends."""
    prefix, grace_seconds, owner = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    guardian = Guardian(folder, grace_seconds)
    try:
        _send({"folder": str(folder)})
        for request in read_requests(sys.stdin.fileno(), owner):
            _send(guardian.handle(request))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        guardian.close()


def _send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
