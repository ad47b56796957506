"""`size`: its arithmetic."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.tools.size.calculate import CONSTANTS
from monitor.tools.size.render import format_bytes, format_number

ROOT: Final = Path(__file__).parents[3]
CITY: Final = str(ROOT / "config" / "city.yaml")
COUNTRY: Final = ("--visits-per-hour", "3600000", "--people", "1000000")


def run_size(*words: str) -> str:
    """Return the output of the command for the city."""
    done = CliRunner().invoke(main, ["size", "--config", CITY, *words])
    assert done.exit_code == 0, done.output
    return done.output


def read_numbers(*words: str) -> dict[str, float]:
    """Return the numbers of the command."""
    found: dict[str, float] = json.loads(run_size("--json", *words))
    return found


def test_arithmetic_of_a_load() -> None:
    """Each number follows from the load and the constants by the arithmetic that the page states."""
    found = read_numbers(
        *COUNTRY, "--places", "2000000", "--watched", "200000", "--catch-up", "1000", "--redis-gib", "1"
    )
    tick = 200_000 * 12e-6 + 14 * 2_000_000 * 20e-9
    facts = 10_000_000 * 140 + 14_000_000 * 80 + 3_600_000 * 30
    servers = max(math.ceil(2 * facts / 2**30), math.ceil(1_000_000 / CONSTANTS["store"]))
    assert found["busy_rate"] == 1_000
    assert found["tick_seconds"] == pytest.approx(tick)
    assert found["processes"] == max(math.ceil(1_000 * 1_000 / CONSTANTS["read_rate"]), math.ceil(tick / 900), 2)
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
    assert found["output_bytes"] / (24 * 24 * CONSTANTS["answer"]) == pytest.approx(29.2, abs=0.1)


@pytest.mark.parametrize("option", ["--visits-per-hour", "--people", "--places", "--watched"])
def test_more_load_needs_no_less(option: str) -> None:
    """Ten times a load never needs less of anything. Only snapshots get smaller, because there are more shards."""
    base = {"--visits-per-hour": 10**7, "--people": 10**7, "--places": 10**6, "--watched": 10**5}
    more = {**base, option: 10 * base[option]}
    before, after = (read_numbers(*(str(word) for pair in load.items() for word in pair)) for load in (base, more))
    assert all(after[key] >= before[key] for key in before if key != "snapshot_bytes")
    assert after != before


def test_text_shows_every_number() -> None:
    """The text has a row with its arithmetic for each number of the JSON."""
    rows = [line for line in run_size(*COUNTRY).splitlines() if line.startswith("  ")]
    assert len(rows) == len(read_numbers(*COUNTRY))
    assert all("  = " in row for row in rows)


def test_invalid_load_is_refused() -> None:
    """A load of 0 is a usage error."""
    done = CliRunner().invoke(main, ["size", "--config", CITY, "--visits-per-hour", "0", "--people", "1"])
    assert done.exit_code == 2


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
