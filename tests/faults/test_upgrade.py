"""An upgrade and a downgrade while visits flow. No tick is missed, none is unknown, and no promise is broken.

The earlier version is a wheel: tests/faults/earlier/ has the one that `make dist` builds of the commit EARLIER. So the
test also runs where the history of the repository is missing (docs/releases.md).
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from monitor.tools.embedded import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.processes import Instance
from tests.faults.test_rolling import CHANGES, find_missed, roll, start_all
from tests.faults.town import Shape
from tests.faults.versions import Version, settle
from tests.shared_kafka import SharedKafka

EARLIER: Final = "b1c4fc7b62532d59c239f0386f69a4383898ca40"
WHEEL: Final = Path(__file__).with_name("earlier") / "location_monitor-0.1.0-py3-none-any.whl"
ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class EarlierVersion(Version):
    """The earlier version with the same configuration. `folder` has the files of its wheel."""

    folder: Path = Path()

    def start(self) -> Instance:
        """Start another instance from the wheel."""
        code = f"import sys; sys.path.insert(0, {str(self.folder)!r}); from monitor.cli import main; "
        code += "import monitor; print('the package is', monitor.__file__, flush=True); main()"
        log = self.town.folder / f"instance-{len(self.town.instances)}.log"
        # -P: without the current folder, which contains the present version.
        instance = Instance(self.town.config, log, (), ("-P", "-c", code, "run"))
        self.town.instances.append(instance)
        self.instances.append(instance)
        return instance


@pytest.fixture
def scene(kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    """A town on servers that no test breaks."""
    return make_scene(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=2, changes=CHANGES))


@pytest.fixture
def earlier(scene: Scene, tmp_path: Path) -> EarlierVersion:
    """The earlier version, unpacked as an installer does it."""
    folder = tmp_path / "earlier"
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(folder)
    return EarlierVersion(scene.town, folder=folder)


@pytest.mark.promise(39)
def test_upgrade_and_downgrade_miss_no_tick(scene: Scene, earlier: EarlierVersion) -> None:
    """Each version continues the other one's ledger, marks and facts, without a missed or an unknown tick.

    earlier  ├── begins the ledger ──┤            ├─ ready ──────────
    present                    ├─ ready ────────────────┤
    """
    present = Version(scene.town)
    first_tick = start_all(scene, earlier, 1)
    (new,) = roll(earlier.instances[:1], present)
    scene.subscriber.wait_new()
    scene.subscriber.wait_new()
    roll([new], earlier)
    scene.subscriber.wait_new()
    ledger, broken = settle(scene, [present, earlier])
    assert broken == []
    assert list(find_missed(scene, first_tick)) == []
    assert ledger.ticks(0)
    assert ledger.ticks(1)
    assert all(str(earlier.folder) in instance.text for instance in earlier.instances)
    assert str(earlier.folder) not in new.text


def test_wheel_is_of_the_commit(tmp_path: Path) -> None:
    """The kept wheel has exactly the files of the commit that it names, if this clone has the commit."""
    git = ["git", "-C", str(ROOT), "archive", "--format=zip", f"--output={tmp_path / 'commit.zip'}", EARLIER, "monitor"]
    ended = subprocess.run(git, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip(f"the history lacks {EARLIER[:7]}, so the wheel cannot be compared with it: {ended.stderr.strip()}")
    with zipfile.ZipFile(tmp_path / "commit.zip") as commit, zipfile.ZipFile(WHEEL) as wheel:
        built = {
            info.filename: info.CRC for info in wheel.infolist() if re.match(r"monitor/(?!examples/)", info.filename)
        }
        assert built == {info.filename: info.CRC for info in commit.infolist() if not info.is_dir()}
