"""`size`: its arithmetic, its constants, and the examples of docs/scaling.md."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from typing import Any, Final

import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.tools.size import constants
from monitor.tools.size.constants import Constant
from monitor.tools.size.load import Options
from monitor.tools.size.sheet import format_bytes, format_number
from simulators.bench.registry import find_lines
from tests.size.examples import PAGE, ROOT, read_examples, run_example

CITY: Final = ROOT / "config" / "city.yaml"
BENCH: Final = ROOT / "simulators" / "bench" / "measured.json"
SLACK: Final = 1.5


def run_size(*words: str) -> str:
    """Return the output of the command for the city."""
    done = CliRunner().invoke(main, ["size", "--config", str(CITY), *words])
    assert done.exit_code == 0, done.output
    return done.output


def read_numbers(*words: str) -> dict[str, float]:
    """Return the numbers of the command."""
    found: dict[str, float] = json.loads(run_size("--json", *words))
    return found


COUNTRY: Final = ("--visits-per-hour", "3600000", "--people", "1000000")


def test_arithmetic_of_a_load() -> None:
    """Each number follows from the load and the constants by the arithmetic that the page states."""
    found = read_numbers(
        *COUNTRY, "--places", "2000000", "--watched", "200000", "--catch-up", "1000", "--redis-gib", "1"
    )
    tick = 200_000 * constants.TICK_PER_WATCHED.value + 2 * 2_000_000 * constants.TICK_PER_REGISTERED.value
    readers = math.ceil(1_000 * 1_000 / constants.READ.value)
    facts = (
        10_000_000 * constants.SEEN_BYTES.value
        + 2_000_000 * constants.PRESENT_BYTES.value
        + 3_600_000 * constants.WAITING_BYTES.value
    )
    servers = max(math.ceil(2 * facts / 2**30), math.ceil(1_000_000 / constants.STORE.value))
    assert found["busy_rate"] == 1_000
    assert found["tick_seconds"] == pytest.approx(tick)
    assert found["processes"] == max(readers, math.ceil(tick / 900), 2)
    assert found["input_partitions"] == found["output_partitions"] == 2 * found["processes"]
    assert found["facts_bytes"] == pytest.approx(facts)
    assert found["redis_servers"] == servers
    assert found["redis_cluster"] == 1
    assert found["shards"] >= max(200, 16 * servers)
    assert found["shards"] % found["output_partitions"] == 0


def test_retention_is_that_of_the_topics() -> None:
    """The disk follows from the retention that `topics --create` sets: a little over 15 and 29 days for this city."""
    found = read_numbers(
        *COUNTRY, "--kafka-replicas", "1", "--busy-factor", "1", "--visit-bytes", "100", "--watched", "24"
    )
    assert found["input_bytes"] / (1_000 * 100 * 86_400) == pytest.approx(15.2, abs=0.1)
    assert found["output_bytes"] / (24 * 24 * constants.ANSWER_BYTES.value) == pytest.approx(29.2, abs=0.1)


@pytest.mark.parametrize("option", ["--visits-per-hour", "--people", "--places", "--watched"])
def test_more_load_needs_no_less(option: str) -> None:
    """Ten times a load never needs less of anything. Only snapshots get smaller, because there are more shards."""
    base = {"--visits-per-hour": 10**7, "--people": 10**7, "--places": 10**6, "--watched": 10**5}
    more = {**base, option: 10 * base[option]}
    before, after = (read_numbers(*(str(word) for pair in load.items() for word in pair)) for load in (base, more))
    assert all(after[key] >= before[key] for key in before if key != "snapshot_bytes")
    assert after != before


def test_text_shows_every_number() -> None:
    """The text has a row with its arithmetic for each number of the JSON, and marks the measured numbers."""
    text = run_size(*COUNTRY)
    rows = [line for line in text.splitlines() if line.startswith("  ")]
    assert len(rows) == len(read_numbers(*COUNTRY))
    assert all("  = " in row for row in rows)
    assert text.splitlines()[-1].startswith("* checked")


def test_options_have_one_default_each() -> None:
    """Every option of the command is a field of `Options`, so that no default is written twice."""
    help_text = CliRunner().invoke(main, ["size", "--help"]).output
    flags = set(re.findall(r"^  --([a-z-]+)", help_text, re.MULTILINE)) - {"config", "json"}
    assert flags == {field.name.replace("_", "-") for field in fields(Options)}


def test_invalid_load_is_refused() -> None:
    """A load of 0 is a usage error."""
    done = CliRunner().invoke(main, ["size", "--config", str(CITY), "--visits-per-hour", "0", "--people", "1"])
    assert done.exit_code == 2


EXAMPLES: Final = read_examples(PAGE.read_text(encoding="utf-8"))


def test_page_has_three_examples() -> None:
    """docs/scaling.md has three examples: a city, a country and a planet."""
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("number", range(3))
def test_page_shows_the_output(number: int) -> None:
    """The numbers of docs/scaling.md are the present output of the command. tests/size/examples.py writes them."""
    command, shown = EXAMPLES[number]
    assert run_example(command) == shown


def list_measured_constants() -> dict[str, Constant]:
    """Return the constants that the benchmark measures."""
    every = {name: value for name, value in vars(constants).items() if isinstance(value, Constant)}
    return {name: value for name, value in every.items() if value.is_measured}


def read_measured_lines() -> dict[str, Any]:
    """Return the lines of simulators/bench/measured.json by name. `make bench` writes this file."""
    return {line["name"]: line for line in json.loads(BENCH.read_text(encoding="utf-8"))["lines"]}


@pytest.mark.parametrize("name", sorted(list_measured_constants()))
def test_constants_are_measured(name: str) -> None:
    """A constant names a line of the benchmark, and is at most SLACK times as favourable as its latest figure."""
    constant = list_measured_constants()[name]
    assert find_lines([constant.line])
    measured = read_measured_lines()[constant.line]["figures"][constant.figure] * constant.scale
    if constant.is_rate:
        assert constant.value <= SLACK * measured
    else:
        assert constant.value >= measured / SLACK


@pytest.mark.parametrize(
    ("value", "text"), [(12, "12 B"), (1536, "1.5 KiB"), (2**30, "1 GiB"), (3.5 * 2**40, "3.5 TiB")]
)
def test_bytes_have_units(value: float, text: str) -> None:
    """Bytes are shown in the largest unit that fits."""
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(12, "12"), (1234567, "1,234,567"), (0.0012345, "0.00123"), (5.56, "5.56")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    """Whole numbers are shown in full, others with three digits."""
    assert format_number(value) == text
