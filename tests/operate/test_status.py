"""`status` shows what an instance reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction

import pytest
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.observe.health import Endpoint, Health
from monitor.observe.update_service_metrics import Metrics


class Instance:
    """The endpoint of an instance, its health and its metrics."""

    def __init__(self) -> None:
        self.health, self.metrics = Health(), Metrics()
        self.metrics.describe_configuration(3600, 30, (Fraction(3), Fraction(5, 2)), {"places": OverTime.statuses})
        self.endpoint = Endpoint("127.0.0.1", 0, self.metrics.registry, self.health)

    def ask(self) -> Result:
        return CliRunner().invoke(main, ["status", f"http://127.0.0.1:{self.endpoint.port}/"])


@pytest.fixture
def instance() -> Iterator[Instance]:
    """An instance on a free port."""
    made = Instance()
    with closing(made.endpoint):
        yield made


def test_status_of_a_ready_instance(instance: Instance) -> None:
    """The lines show the last tick, the lag of each input partition, and ε, within 80 columns."""
    instance.metrics.set_lag({0: 0, 3: 1_200})
    instance.metrics.set_missing({3: 17})
    for cause in ("takeover", "no_progress", "no_progress"):
        instance.metrics.count_recovery(cause)
    result = instance.ask()
    assert result.exit_code == 0, result.output
    lines = dict(line.split(maxsplit=1) for line in result.output.splitlines())
    assert lines["ready"] == "yes"
    assert lines["answers"].startswith("no output partition")
    assert lines["lag"] == "1,200 records of input partition 3"
    assert lines["missing"] == "17 records of input partition 3 at the last tick"
    assert lines["began"] == "2 input partitions without facts in Redis, 1 takeovers"
    assert lines["recovered"] == "never"
    assert lines["ε"] == "3 stated, 2.5 in the worst case of this configuration"
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_status_after_a_loss(instance: Instance) -> None:
    """Only what a healthy start does not do is a recovery: Redis lost writes once."""
    for cause in ("takeover", "windows_behind"):
        instance.metrics.count_recovery(cause)
    lines = dict(line.split(maxsplit=1) for line in instance.ask().output.splitlines())
    assert (lines["began"], lines["recovered"]) == ("1 takeovers", "1 times because of windows_behind")


@pytest.mark.parametrize(("lag", "text"), [({0: 0, 3: 0}, "0 records"), ({}, "no input partition")])
def test_status_without_lag(instance: Instance, lag: dict[int, int], text: str) -> None:
    """A lag of 0 is shown as such, and not as an instance without partitions."""
    instance.metrics.set_lag(lag)
    assert dict(line.split(maxsplit=1) for line in instance.ask().output.splitlines())["lag"] == text


def test_status_of_the_last_tick(instance: Instance) -> None:
    """An instance that publishes shows its last tick by output partition, and how many in a row were unknown."""
    instance.metrics.count_tick(2, 1_767_571_200, {"places": "decided"}, {})
    instance.metrics.count_tick(2, 1_767_574_800, {"places": "unknown"}, {})
    lines = dict(line.split(maxsplit=1) for line in instance.ask().output.splitlines())
    assert lines["answers"].startswith("output partition 2: up to 2026-01-05T01:00:00Z, ")
    assert lines["answers"].endswith(" s ago, unknown at 1 ticks in a row")
    assert lines["ticks"] == "1 decided, 1 unknown"


def test_status_names_what_is_waited_for(instance: Instance) -> None:
    """If the instance is not ready, the reasons come first and the exit code is 1."""
    instance.health.report_alive("release", "Kafka does not answer")
    result = instance.ask()
    assert result.exit_code == 1
    assert result.output.splitlines()[:2] == ["waits      release: Kafka does not answer", "ready      no"]


def test_status_without_an_instance() -> None:
    """Without an instance the message names the address and the key; a text without a scheme is wrong usage."""
    result = CliRunner().invoke(main, ["status", "http://127.0.0.1:9"])
    assert (result.exit_code, "metrics.port" in result.output) == (1, True)
    assert CliRunner().invoke(main, ["status", "localhost"]).exit_code == 2


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"ok": ' + b"9" * 5_000 + b"}"])
def test_status_of_another_server(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that answers something else exits with 2, and the message names it and the expected keys."""
    monkeypatch.setattr("monitor.operate.status._read", lambda _url: answer)
    result = CliRunner().invoke(main, ["status", "http://127.0.0.1:9"])
    assert result.exit_code == 2
    assert "http://127.0.0.1:9/readyz is not the answer of an instance: expected metrics.host:metrics.port" in " ".join(
        result.output.split()
    )
