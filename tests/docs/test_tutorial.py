"""The tutorial works as it is written: all of its blocks run in order, in an empty folder, on real servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest
import redis

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.values.person_key import create_key
from tests.conftest import Eventually
from tests.docs.blocks import BACKGROUND, Block, read_blocks, split_commands, split_statements
from tests.docs.conftest import ROOT, Document
from tests.docs.test_code_blocks import BASH, TUTORIAL
from tests.kit.programs import Program

CLI: Final = str(ROOT / "monitor" / "cli.py")
PREFIX: Final = "LOCATION_MONITOR__"
SECONDS: Final = 120.0
PLACE: Final = re.compile(r"^The page is at http://([^/]+)/$", re.MULTILINE)
CHANGE: Final = re.compile(r"^2026-03-\S+ (\w+): (\w+)", re.MULTILINE)
ALARM: Final = re.compile(r"^places pool: .*at most \d+", re.MULTILINE)


class Newcomer:
    """Copies blocks into a terminal: the environment lasts from block to block, and background programs run on.

    The servers of the tests take the place of embedded ones. Because they are the same for `replay` and for the live
    service, `replay` has topics of its own, and the live service another name.
    """

    def __init__(self, folder: Path, kafka: str, store: str, topic: Callable[[str], str]) -> None:
        self._folder, self._store = folder, store
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            f"{PREFIX}KAFKA__BOOTSTRAP_SERVERS": kafka,
            f"{PREFIX}REDIS__URL": store,
        }
        names = ("VISITS", "ALERTS", "DEAD_LETTERS")
        self._replayed = {f"{PREFIX}KAFKA__TOPICS__{name}": topic(name.lower()) for name in names}
        self._replayed[f"{PREFIX}VISITS__PERSON_KEY_FILE"] = "replay.key"  # embedded servers come with a key
        (folder / "replay.key").write_text(create_key())
        self._running: dict[str, Program] = {}
        self.printed: list[str] = []

    def copy(self, block: Block) -> None:
        """Run a block, and keep what it prints."""
        if block.language == "python":
            self.printed.append(self._run([sys.executable, "-c", block.code], self._environment))
            return
        for statement in split_statements(block.code):
            words = split_commands(statement)[0]
            if words[0] == "sleep":
                continue  # the test looks again instead, because a busy machine may take longer
            if words[0] != "location-monitor":
                self._shell(statement)
            elif block.mark == BACKGROUND:
                self._start([word.replace(":8080", ":0") for word in words[1:]])
            else:
                self.printed.append(self.command(words[1:]))

    def _shell(self, statement: str) -> None:
        output = self._run([BASH, "-euc", f"{statement}\nenv -0 > .environment"], self._environment)
        lines = (self._folder / ".environment").read_bytes().split(b"\0")
        self._environment = dict(line.decode().split("=", 1) for line in lines if line)
        self.printed.append(output)

    def _run(self, words: list[str], environment: dict[str, str]) -> str:
        result = subprocess.run(
            words, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def _start(self, words: list[str]) -> Program:
        output = self._folder / f"{words[0]}.log"
        program = Program([CLI, *words], output, None, self._environment, self._folder)
        self._running[words[0]] = program
        return program

    def command(self, words: list[str]) -> str:
        """Run a command to its end and return what it prints."""
        output = self._folder / f"{uuid.uuid4().hex}.out"
        environment = self._environment
        if words[0] == "replay":
            words, environment = [word for word in words if word != "--embedded"], environment | self._replayed
        if words[0] == "audit":  # it judges by the file alone
            environment = {name: text for name, text in environment.items() if name != f"{PREFIX}SERVICE__NAME"}
        program = Program([CLI, *words], output, None, environment, self._folder)
        assert program.wait(SECONDS) == 0, output.read_text(encoding="utf-8")
        if words[0] == "replay":  # the embedded servers would now be gone
            with redis.Redis.from_url(self._store) as client:
                client.flushall()
            self._environment[f"{PREFIX}SERVICE__NAME"] = "town-live"
        return output.read_text(encoding="utf-8")

    def leave(self) -> None:
        """Press Ctrl-C in the other terminals."""
        for program in self._running.values():
            program.kill()

    def stop(self, command: str) -> None:
        """Press Ctrl-C in the terminal of a command that runs."""
        self._running.pop(command).kill()


@pytest.fixture
def newcomer(tmp_path: Path, topic: Callable[[str], str]) -> Iterator[Newcomer]:
    """A newcomer in an empty folder, with servers of their own: the name of the service is that of other tests."""
    with EmbeddedKafka() as kafka, EmbeddedValkey() as valkey:
        person = Newcomer(tmp_path, kafka.bootstrap_servers, valkey.url, topic)
        yield person
        person.leave()


def read_tutorial() -> Iterator[Block]:
    """Yield the blocks of the tutorial that run."""
    path = ROOT / TUTORIAL
    return (block for block in read_blocks(Document(path, path.read_text(encoding="utf-8"))) if block.runs)


@pytest.mark.servers
def test_tutorial_works(newcomer: Newcomer, tmp_path: Path, eventually: Eventually) -> None:
    """Each block succeeds, and what the page says about the output is true."""
    for block in read_tutorial():
        newcomer.copy(block)
    printed = "\n".join(newcomer.printed)
    assert "< 0.0001 %" in printed
    assert "13.5 %" in printed
    assert "line 13: unknown_location" in printed
    assert re.search(r"applied:? 11\b|\b11 applied", printed)
    assert "Nothing wrong was found.\n" in printed
    states = read_changes(printed)
    assert states["library"] == ["safe", "noisy_count", "paused", "safe"]
    assert states["pool"] == ["safe"]
    assert states["cafe"][0] == "safe"  # once in a thousand runs it has an alarm too

    def watch_alarm() -> str:
        watched = newcomer.command(["watch", "--config", "town.yaml", "--once"])
        return watched if ALARM.search(watched) else ""

    watched = eventually(watch_alarm, SECONDS)
    assert "places library: safe" in watched
    assert "places cafe: safe" in watched or "places cafe: at most" in watched  # people may be a slot later
    (place,) = eventually(lambda: PLACE.findall((tmp_path / "page.log").read_text(encoding="utf-8")), SECONDS)

    def read_states() -> dict[str, str]:
        with closing(HTTPConnection(place, timeout=10)) as connection:
            connection.request("GET", "/places.json")
            return {each["id"]: each["state"] for each in json.loads(connection.getresponse().read())["locations"]}

    def see_both() -> bool:
        states, warned = read_states(), {"noisy_count", "paused"}
        return states["library"] == "safe" and {states["cafe"], states["pool"]} <= warned

    eventually(see_both, SECONDS)
    newcomer.stop("run")
    eventually(lambda: set(read_states().values()) == {"unknown"}, SECONDS)


def read_changes(printed: str) -> dict[str, list[str]]:
    """Return the answers about each place that `show.py` printed, in order."""
    states: dict[str, list[str]] = {}
    for place, state in CHANGE.findall(printed):
        states.setdefault(place, []).append(state)
    return states
