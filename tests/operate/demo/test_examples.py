"""The demo's configuration is found in an installed wheel. The other tests find it in the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import monitor

pytestmark = pytest.mark.long

ROOT = Path(monitor.__file__).parents[1]


def test_installed_wheel_has_demo_files(tmp_path: Path) -> None:
    """The wheel contains the same configuration and registry."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed, folder = tmp_path / "installed", tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from monitor.operate.demo.run_demo import copy_examples"
    code += "; from pathlib import Path; import monitor; print(monitor.__file__); copy_examples(Path(sys.argv[2]))"
    run = [sys.executable, "-W", "ignore", "-c", code, str(installed), str(folder)]
    output = subprocess.run(run, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert output.startswith(str(installed))
    for name in ("demo.yaml", "demo-locations.csv", "demo-map.geojson"):
        assert (folder / name).read_bytes() == (ROOT / "config" / name).read_bytes()
