"""`run` with a planted fault in one of its threads. The text of its error contains a person id and a count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.operate.servers import EmbeddedValkey
from tests.conftest import Eventually
from tests.service.test_run import PLANTED, RunTown
from tests.shared_kafka import SharedKafka

THREADS = {"reader.polled": "the reading thread failed", "tick.read": "the thread of ledger partition 0 failed"}
"""A failpoint of each thread, and the log line that reports the failure of this thread."""

PROGRAM = f"""
from monitor.cli import main
from monitor.observe.failpoints import arm

def fail():
    text = "{PLANTED} has 4711 visits"
    raise ValueError(text) from KeyError(text)

arm("@PLACE", fail)
main()
"""


@pytest.mark.promise(22)
@pytest.mark.parametrize("place", THREADS)
def test_error_text_is_not_shown(
    place: str,
    kafka: SharedKafka,
    store: EmbeddedValkey,
    tmp_path: Path,
    topic: Callable[[str], str],
    eventually: Eventually,
) -> None:
    """If a thread of the service fails, the log and the health pages name the class of the error, but not its text."""
    town = RunTown(tmp_path, topic("fault"), kafka.bootstrap_servers, store.url)
    assert town.command("topics", "--create").returncode == 0
    town.put(["first"], "inn")
    program, pages = tmp_path / "faulty.py", list[str]()
    program.write_text(PROGRAM.replace("@PLACE", place))
    process = town.launch(str(program), "run", "--config", str(town.write()), "--verbose")

    def is_reported() -> Any:
        pages.extend(process.page(path) for path in ("/readyz", "/healthz"))
        return any("ValueError" in page for page in pages)

    try:
        eventually(is_reported, 40)
        assert process.terminate() == 0
    finally:
        town.end()
    assert THREADS[place] in process.text
    assert f'{program}", line 7, in fail' in process.text
    assert not [text for text in (process.text, *pages) if PLANTED in text]
