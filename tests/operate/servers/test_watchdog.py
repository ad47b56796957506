"""When the program ends in any way, its servers end and their folders are removed."""

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

from monitor.operate.servers import EmbeddedValkey, watchdog
from monitor.operate.servers.ports import ReservedPort
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.servers

_REPORT = """
def report(*servers):
    watchdogs = [server._watchdog.pid for server in servers]
    processes = watchdogs + [server.pid for server in servers]
    print(json.dumps({"processes": processes, "folders": [str(server.folder) for server in servers]}), flush=True)
"""
_IMPORTS = "import json, os, signal, sys\nfrom monitor.operate.servers import *\n" + _REPORT
_BOTH = _IMPORTS + "with start_servers(lambda line: None) as both: report(both.kafka, both.valkey); input()"
_VALKEY = _IMPORTS + "with EmbeddedValkey() as server:\n    report(server)\n    "


@contextmanager
def _program(code: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Run a program that starts servers and prints their process ids and folders."""
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


def _describe(process: int) -> str:
    """Return the state, parent, age and command of a process that runs. A zombie does not run."""
    command = ["ps", "-o", "stat=,pid=,ppid=,etime=,args=", "-p", str(process)]
    described = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return "" if described.startswith(("Z", "X")) else described


def _list_left(started: dict[str, Any]) -> list[str]:
    """Return the processes that still run and the folders that still exist."""
    processes = [described for described in map(_describe, started["processes"]) if described]
    return processes + [folder for folder in started["folders"] if Path(folder).exists()]


def _wait_for_end(started: dict[str, Any], eventually: Callable[..., Any]) -> None:
    """Wait until no process and no folder is left. The deadline is long, because a busy machine ends processes late."""
    try:
        eventually(lambda: not _list_left(started), deadline_seconds=60)
    except AssertionError:
        pytest.fail(f"after 60 s these are left: {_list_left(started)}")


def test_sigkill_of_program_leaves_nothing(kafka: SharedKafka, eventually: Callable[..., Any]) -> None:
    """After SIGKILL of the program, no server, watchdog or folder is left."""
    with _program(_BOTH) as (program, started):
        assert all(map(_describe, started["processes"]))
        assert all(Path(folder).is_dir() for folder in started["folders"])
        program.kill()
        program.wait()
        _wait_for_end(started, eventually)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("raise ValueError", 1),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -signal.SIGTERM),
        ("server.pause(); os._exit(5)", 5),
        ("os.kill(server._watchdog.pid, signal.SIGKILL)", 0),
    ],
)
def test_every_program_end_stops_server(ending: str, code: int, eventually: Callable[..., Any]) -> None:
    """The server stops and its folder is removed, however the program ends."""
    with _program(_VALKEY + ending) as (program, started):
        assert program.wait(20) == code
        _wait_for_end(started, eventually)


def test_server_ends_with_interpreter(eventually: Callable[..., Any]) -> None:
    """A server that is never stopped ends with the interpreter."""
    with _program(_IMPORTS + "server = EmbeddedValkey(); server.start(); report(server)") as (program, started):
        assert program.wait(20) == 0
        _wait_for_end(started, eventually)


def test_ctrl_c_does_not_reach_servers(eventually: Callable[..., Any]) -> None:
    """
    Ctrl-C does not end the servers.

    A terminal signals the whole process group, and the server must still run while the program ends in order.
    """
    interrupted = "except KeyboardInterrupt: sys.exit(0 if server.is_running() else 9)"
    body = f"try: report(server); signal.pause()\n    {interrupted}"
    with _program(_IMPORTS + "with EmbeddedValkey() as server:\n    " + body) as (program, started):
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(20) == 0
        _wait_for_end(started, eventually)


def test_forked_child_does_not_keep_server(eventually: Callable[..., Any]) -> None:
    """A forked child with a copy of the pipe does not keep the server running."""
    ending = "child = os.fork()\n    if child == 0: signal.pause()\n    print(child, flush=True); signal.pause()"
    with _program(_VALKEY + ending) as (program, started):
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
        program.wait()
        try:
            _wait_for_end(started, eventually)
            assert _describe(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_early_end_stops_server(tmp_path: Path, eventually: Callable[..., Any]) -> None:
    """The server stops even if the program ended before the watchdog ran. A busy machine starts the watchdog late."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as owner:
        owner.wait()
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as server:
        command = [sys.executable, "-I", "-S", watchdog.__file__, str(tmp_path / "folder"), str(owner.pid), "5"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as started:
            try:
                assert started.stdin is not None
                started.stdin.write(f"{server.pid}\n")
                started.stdin.flush()  # the pipe stays open, as in a process that the owner forked
                eventually(lambda: server.poll() == -signal.SIGTERM, deadline_seconds=60)
            finally:
                server.kill()


def test_taken_port_is_replaced() -> None:
    """
    A server whose port is taken between the reservation and its start gets another port.

    The rival's socket is bound without SO_REUSEADDR.
    """
    attempts: list[int] = []
    with socket.socket() as rival:
        rival.bind(("127.0.0.1", 0))

        class Unlucky(EmbeddedValkey):
            def _reserve(self) -> dict[str, ReservedPort]:
                port = ReservedPort()
                if not attempts:
                    port.release()
                    port.number = rival.getsockname()[1]
                attempts.append(port.number)
                return {"client": port}

        with Unlucky() as server:
            assert len(attempts) == 2
            assert server.url == f"redis://127.0.0.1:{attempts[1]}/0"
