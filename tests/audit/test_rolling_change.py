"""A configuration changes while the auditor runs: it judges what it has the configuration for, and accuses nobody.

The run is drawn in records.py. From tick 4 on another configuration is in force.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from monitor.audit.compare_ticks import Engine
from monitor.audit.findings import Outcome
from monitor.audit.live.config_files import ConfigFiles, list_configs
from monitor.cli import main
from tests.audit.conftest import Tiny
from tests.audit.records import charges, owner, walk
from tests.audit.test_auditor import ready, run_auditor, write_service
from tests.audit.test_follow import Published, run
from tests.conftest import Eventually
from tests.shared_kafka import SharedKafka

__all__ = ["run"]  # a fixture

CHANGED_AT = 4
WITH_POOL = hashlib.sha256(b"park\nshop\npool\n").hexdigest()


@dataclass
class Change:
    """The tiny run with a change. `later` is the newer configuration, and `owner` the first record of its owner."""

    tiny: Tiny
    later: str
    owner: dict[str, Any]
    registry: str = "location_id\npark\nshop\n"
    fresh: list[dict[str, Any]] = field(default_factory=list)

    @property
    def parts(self) -> list[list[dict[str, Any]]]:
        """The records before and after the change, each part with its owner record first."""
        before, after = self.tiny.split(CHANGED_AT - 1)
        after = sorted(after + self.fresh, key=lambda line: line["value"]["tick"])
        return [[owner(charges(), fingerprint="a" * 16), *before], [self.owner, *after]]

    def write(self) -> tuple[Path, Path]:
        """Write both configurations. Return the newer one and the earlier one."""
        earlier = self.tiny.write()[1]
        later = earlier.with_name("later.yaml")
        later.write_text(self.later.replace("locations.csv", "later.csv"))
        later.with_name("later.csv").write_text(self.registry)
        return later, earlier

    def audit(self, *configs: Path) -> Result:
        """Audit the records once, as a file, with the command."""
        alerts = self.tiny.write_records([line for part in self.parts for line in part])
        words = [str(self.tiny.folder / "visits.csv"), "--alerts", str(alerts), "--live"]
        return CliRunner().invoke(main, ["audit", *words, *(f"--config={config}" for config in configs)])

    def follow(self, *configs: Path) -> Engine:
        """Follow the records as they are published."""
        return self.tiny.follow(*self.parts, configs=configs)


def add_watched_place(tiny: Tiny) -> Change:
    """The pool is added to the registry and to `walk`, whose ε grows with it."""
    later = tiny.config.replace('locations: [park], epsilon: "1"', 'locations: [park, pool], epsilon: "2"')
    later = later.replace('privacy: {epsilon: "2"', 'privacy: {epsilon: "4"')
    made = charges()
    made["places"][0]["shares"] = {"1": ["park", "pool"]}
    change = _add_pool(tiny, later, owner(made, fingerprint="b" * 16))
    for tick in (4, 5, 6):
        pool = walk(tick, "safe", [], location_id="pool")
        pool["headers"]["ce_id"] = f"walk/pool/{tick}"
        change.fresh.append(pool | {"key": "walk/pool"})
    return change


def add_place_to_registry(tiny: Tiny) -> Change:
    """The pool is added to the registry only, so that the charges stay as they are."""
    return _add_pool(tiny, tiny.config, owner(charges(), fingerprint="b" * 16))


def change_threshold(tiny: Tiny) -> Change:
    """The threshold of `walk` changes: neither the charges nor the fingerprint of the owner record do."""
    for tick in (4, 5, 6):
        tiny[f"walk/park/{tick}"]["threshold"] = 1
    later = tiny.config.replace('epsilon: "1", threshold: 2', 'epsilon: "1", threshold: 1')
    repeats = [line for line in tiny.records if line["value"]["tick"] == CHANGED_AT - 1]
    change = Change(tiny, later, owner(charges(), fingerprint="a" * 16))
    change.fresh += json.loads(json.dumps(repeats))
    return change


def change_answers(tiny: Tiny) -> Change:
    """`night` may have two noisy counts from tick 4 on, which changes no charge. The shop has spent its ε before."""
    tiny["night/2026-01-01T02:30:00Z/0/4"]["answers_per_time"] = 2
    later = tiny.config.replace("reporting_horizon: 3h", "reporting_horizon: 3h\n    answers_per_time: 2")
    return Change(tiny, later, owner(charges(), fingerprint="b" * 16))


def _add_pool(tiny: Tiny, later: str, first: dict[str, Any]) -> Change:
    tiny["night/2026-01-01T02:30:00Z/0/4"].update(registry=WITH_POOL, locations=3)
    return Change(tiny, later, first, "location_id\npark\nshop\npool\n")


CHANGES: list[Callable[[Tiny], Change]] = [add_watched_place, add_place_to_registry, change_threshold, change_answers]
each_change = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)


@each_change
def test_missing_configuration_accuses_nobody(tiny: Tiny, change: Callable[[Tiny], Change]) -> None:
    """What the configuration published that is not given, the later or the earlier one, is unjudged, and no finding.

    The audit of a file then says that records were not judged, and exits with 2.
    """
    changed = change(tiny)
    for config in changed.write():
        engine, result = changed.follow(config), changed.audit(config)
        assert engine.findings.totals == {}
        assert min(engine.outcomes[Outcome.UNJUDGED], engine.output.unjudged_records) >= 1
        assert engine.outcomes[Outcome.PROVEN] >= (CHANGED_AT if config.name == "config.yaml" else 0)
        assert result.exit_code == 2
        assert "Nothing wrong was found in" in result.output
        assert "The others were not judged." in result.output


@each_change
def test_both_configurations_judge_everything(tiny: Tiny, change: Callable[[Tiny], Change]) -> None:
    """With both configurations each tick is proven, and the audit of a file exits with 0."""
    changed = change(tiny)
    engine = changed.follow(*changed.write())
    assert engine.findings.totals == {}
    assert engine.outcomes == {Outcome.PROVEN: 7}
    result = changed.audit(*changed.write())
    assert result.exit_code == 0
    assert "Nothing wrong was found.\n" in result.output


def test_confirmed_configuration_explains_all(tiny: Tiny) -> None:
    """Once an answer has fitted the owner's configuration, one with other public values is a finding."""
    changed = add_place_to_registry(tiny)
    tiny["walk/park/6"]["threshold"] = 3
    later, earlier = changed.write()
    engine = changed.follow(later, earlier)
    assert set(engine.findings.totals) == {"form"}
    assert engine.output.unjudged_records == 0


def test_stranger_is_found_in_a_known_stretch(tiny: Tiny) -> None:
    """A place that no configuration has is a finding while a given configuration is in force."""
    changed = add_place_to_registry(tiny.forge("walk/park/3", location_id="planted"))
    engine = changed.follow(*changed.write())
    assert set(engine.findings.totals) == {"form"}
    assert "planted" not in str(engine.findings.listed)


def test_running_auditor_reads_folder_again(
    run: Published, kafka: SharedKafka, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """A place is added while the auditor runs: once its folder has the configuration, every tick is proven."""
    folder = write_service(run, kafka).parent / "configurations"
    changed = add_watched_place(run.tiny)
    later, earlier = changed.write()
    copy(earlier, folder / "1", "locations.csv")
    run.report()
    run.publish(*changed.parts[0])
    with caplog.at_level(logging.INFO), run_auditor(folder) as auditor:
        eventually(lambda: ready(auditor), 30)
        run.publish(*changed.parts[1])
        eventually(lambda: (auditor.value("ticks_total", outcome="unjudged") or 0) >= 2, 30)
        assert not ready(auditor)
        assert "newer or earlier, with another --config" in caplog.text
        copy(later, folder / "2", "later.csv")
        eventually(lambda: auditor.value("ticks_total", outcome="proven") == 7, 30)
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("findings_total", kind="form") == 0
    assert "finding" not in caplog.text


def copy(config: Path, folder: Path, registry: str) -> None:
    """Copy a configuration and its registry to a folder."""
    folder.mkdir(parents=True)
    (folder / registry).write_text(config.with_name(registry).read_text())
    (folder / "config.yaml").write_text(config.read_text())


def test_folder_lists_newest_first(tmp_path: Path) -> None:
    """The configuration with the last name is the newest; hidden names, as in Kubernetes, are left out."""
    for name in ("2026-01-01/city.yaml", "2026-11-24/city.yml", "2026-03-01.yaml", "..data/city.yaml", "places.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in list_configs([tmp_path])]
    assert found == ["2026-11-24/city.yml", "2026-03-01.yaml", "2026-01-01/city.yaml"]


def test_unusable_change_is_refused(tiny: Tiny, caplog: pytest.LogCaptureFixture) -> None:
    """A changed configuration that cannot be used is named once, and the earlier one stays."""
    config = tiny.write()[1]
    files = ConfigFiles([config])
    for text in ("clock: {", tiny.config.replace("slot: 1h", "slot: 30m"), tiny.config.replace("[park]", "[pool]")):
        caplog.clear()
        config.write_text(text)
        assert [files.reread() for _ in range(4)] == [False] * 4
        assert len(caplog.messages) == 1
        assert "The earlier one stays in use" in caplog.text
    assert len(files.configs) == 1
    config.write_text(tiny.config.replace("threshold: 2", "threshold: 3"))
    assert [files.reread() for _ in range(3)] == [False, True, False]
    assert [vars(terms.monitors[0])["threshold"] for terms in files.configs] == [3, 2]


def test_empty_folder_is_refused(tiny: Tiny) -> None:
    """A folder without a configuration ends with exit code 2."""
    tiny.write()
    result = CliRunner().invoke(main, ["audit", "--config", str(tiny.folder / "..data")])
    assert result.exit_code == 2
    (tiny.folder / "empty").mkdir()
    result = CliRunner().invoke(main, ["audit", "--config", str(tiny.folder / "empty")])
    assert result.exit_code == 2
    assert "this folder has no file *.yaml" in result.output
