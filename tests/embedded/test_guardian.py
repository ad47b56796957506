"""However the program ends, its servers and their folders end with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from monitor.errors import EmbeddedError
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.tools.embedded.ports import ReservedPort

_TELL = """
def tell(*servers):
    guards = [server._guard._guardian.pid for server in servers]
    processes = guards + [server.pid for server in servers]
    print(json.dumps({"processes": processes, "folders": [str(server.folder) for server in servers]}), flush=True)
"""
_IMPORTS = "import json, os, signal, sys\nfrom monitor.tools.embedded import *\n" + _TELL
_BOTH = _IMPORTS + "with start_servers(lambda line: None) as both: tell(both.kafka, both.valkey); input()"
_VALKEY = _IMPORTS + "with EmbeddedValkey() as server:\n    tell(server)\n    "


@contextmanager
def _program(code: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A program that starts servers and tells their process ids and folders."""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            assert program.stdout is not None
            yield program, json.loads(program.stdout.readline())
        finally:
            program.kill()


def _alive(process: int) -> bool:
    """Whether a process runs; a zombie, whose parent merely has not looked yet, does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)  # noqa: S607 - of the search path
    return not state.stdout.strip().startswith(("Z", "X")) and state.stdout.strip() != ""


def _nothing_left(told: dict[str, Any]) -> bool:
    return not any(map(_alive, told["processes"])) and not any(Path(folder).exists() for folder in told["folders"])


def test_kill_9_of_the_program_leaves_no_server_and_no_folder(
    kafka: EmbeddedKafka, eventually: Callable[..., Any]
) -> None:
    with _program(_BOTH) as (program, told):
        assert all(map(_alive, told["processes"]))
        assert all(Path(folder).is_dir() for folder in told["folders"])
        program.kill()
        program.wait()
        eventually(lambda: _nothing_left(told), deadline_seconds=15)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("raise ValueError", 1),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -signal.SIGTERM),
        ("server.pause(); os._exit(5)", 5),
        ("os.kill(server._guard._guardian.pid, signal.SIGTERM)", 0),
    ],
)
def test_every_end_of_the_program_stops_the_server(ending: str, code: int, eventually: Callable[..., Any]) -> None:
    with _program(_VALKEY + ending) as (program, told):
        assert program.wait(20) == code
        eventually(lambda: _nothing_left(told))


def test_a_server_that_was_never_stopped_ends_with_the_interpreter(eventually: Callable[..., Any]) -> None:
    with _program(_IMPORTS + "server = EmbeddedValkey(); server.start(); tell(server)") as (program, told):
        assert program.wait(20) == 0
        eventually(lambda: _nothing_left(told))


def test_ctrl_c_reaches_the_program_and_not_its_servers(eventually: Callable[..., Any]) -> None:
    """A terminal signals the whole process group: the server must live on while the program ends in order."""
    ending = "try: signal.pause()\n    except KeyboardInterrupt: sys.exit(0 if server.is_running() else 9)"
    with _program(_VALKEY + ending) as (program, told):
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(20) == 0
        eventually(lambda: _nothing_left(told))


def test_a_forked_child_that_holds_the_pipe_does_not_keep_the_server(eventually: Callable[..., Any]) -> None:
    ending = "child = os.fork()\n    if child == 0: signal.pause()\n    print(child, flush=True); signal.pause()"
    with _program(_VALKEY + ending) as (program, told):
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
        program.wait()
        try:
            eventually(lambda: _nothing_left(told))
            assert _alive(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_thread_that_starts_a_server_may_end(eventually: Callable[..., Any]) -> None:
    code = (
        "import threading\nserver = EmbeddedValkey()\nt = threading.Thread(target=server.start); t.start(); t.join()\n"
    )
    with _program(_IMPORTS + code + "tell(server); input(); server.restart(); tell(server); input()") as (
        program,
        told,
    ):
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        assert json.loads(program.stdout.readline())["folders"] == told["folders"]


def test_a_killed_guardian_is_reported(eventually: Callable[..., Any]) -> None:
    with EmbeddedValkey() as server:
        guard = server._guarded()
        os.kill(guard._guardian.pid, signal.SIGKILL)
        folder = server.folder
        with pytest.raises(EmbeddedError, match="guardian process of an embedded server has ended"):
            server.kill()
        os.kill(server.pid, signal.SIGKILL)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def test_a_port_that_somebody_was_faster_to_take_is_replaced() -> None:
    """The other socket is bound without SO_REUSEADDR, as one that took the port between its release and the start."""
    attempts: list[int] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))

        class Unlucky(EmbeddedValkey):
            def _reserve(self) -> dict[str, ReservedPort]:
                port = ReservedPort()
                if not attempts:
                    port.release()
                    port.number = other.getsockname()[1]
                attempts.append(port.number)
                return {"client": port}

        with Unlucky() as server:
            assert len(attempts) == 2
            assert server.url == f"redis://127.0.0.1:{attempts[1]}/0"
