"""The files of a release: reproducible, complete, and described by their bill of materials and their provenance."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.dist import build
from deploy.dist.build import NotReproducibleError, Source, try_wheel
from deploy.dist.sbom import read_lock
from monitor import __version__

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def source(root: Path) -> Source:
    """The present commit, or the present files if this is no clone."""
    given = {} if (root / ".git").exists() else {"SOURCE_DATE_EPOCH": "1795348173"}
    return build.find_source(root, given)


@pytest.fixture(scope="module")
def release(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all files of a release, as `make dist` writes it. The build compares two builds."""
    folder = tmp_path_factory.mktemp("release")
    build.write_release(source, folder / "one", build.build_twice(source, folder), folder / "dist")
    return folder / "dist"


def load(release: Path, ending: str) -> dict[str, Any]:
    """Return a JSON file of the release."""
    tree: dict[str, Any] = json.loads((release / f"location_monitor-{__version__}.{ending}").read_bytes())
    return tree


def test_release_has_all_files(release: Path) -> None:
    """A release has a wheel, a source archive, a bill of materials, its provenance, and checksums."""
    name = f"location_monitor-{__version__}"
    endings = ("-py3-none-any.whl", ".tar.gz", ".cdx.json", ".provenance.json")
    assert {path.name for path in release.iterdir()} == {build.SUMS, *(f"{name}{ending}" for ending in endings)}


def test_checksums_match(release: Path) -> None:
    """The checksums are those of all other files."""
    lines = (release / build.SUMS).read_text(encoding="utf-8").splitlines()
    stated = {name: checksum for checksum, name in (line.split("  ") for line in lines)}
    files = [path for path in release.iterdir() if path.name != build.SUMS]
    assert stated == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_difference_is_found(tmp_path: Path) -> None:
    """A byte that differs, and a file that only one build has, fail the build."""
    for name, text in {"one": "same", "two": "other"}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(NotReproducibleError, match=r"a\.whl: two builds of the same commit differ"):
        build.require_same({"a.whl": tmp_path / "one"}, {"a.whl": tmp_path / "two"})
    with pytest.raises(NotReproducibleError, match="different files"):
        build.require_same({"a.whl": tmp_path / "one"}, {})


def test_wheel_has_only_the_package(release: Path) -> None:
    """The wheel contains the package and its metadata, with the licence: no tests, no keys, no compiled files."""
    (wheel,) = release.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"monitor", f"location_monitor-{__version__}.dist-info"}
    assert f"location_monitor-{__version__}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.endswith((".pyc", ".key", ".so"))]


def test_times_are_those_of_the_commit(release: Path, source: Source) -> None:
    """The time of every file in the wheel is SOURCE_DATE_EPOCH, and not the time of the build."""
    (wheel,) = release.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        times = {info.date_time for info in archive.infolist()}
    assert len(times) == 1
    assert load(release, "provenance.json")["predicate"]["buildDefinition"]["externalParameters"] == {
        "commit": source.commit,
        "SOURCE_DATE_EPOCH": str(source.epoch),
    }


def test_bill_of_materials_is_valid(release: Path) -> None:
    """The bill of materials is valid under the schema of CycloneDX 1.6."""
    text = (release / f"location_monitor-{__version__}.cdx.json").read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_bill_lists_the_lock(release: Path, root: Path) -> None:
    """The bill of materials lists the packages of the lock, with their hashes, and the wheel with its own."""
    bom = load(release, "cdx.json")
    pins = list(read_lock(root / "requirements-run.lock"))
    listed = {
        (component["name"], component["version"]): {
            found["content"] for file in component["externalReferences"] for found in file["hashes"]
        }
        for component in bom["components"]
    }
    assert listed == {(pin.name, pin.version): set(pin.hashes) for pin in pins}
    (wheel,) = release.glob("*.whl")
    assert bom["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_bill_has_every_dependency(release: Path) -> None:
    """Everything that the bill of materials lists is needed by the product or by another package."""
    bom = load(release, "cdx.json")
    needed = {name for entry in bom["dependencies"] for name in entry.get("dependsOn", ())}
    elsewhere = {component["bom-ref"] for component in bom["components"] if component["scope"] == "optional"}
    assert {component["bom-ref"] for component in bom["components"]} - elsewhere <= needed


def test_licences_are_stated(release: Path) -> None:
    """The bill of materials states the licence of every package that is needed everywhere."""
    components = load(release, "cdx.json")["components"]
    assert [part["name"] for part in components if part["scope"] == "required" and not part.get("licenses")] == []


@pytest.mark.parametrize("name", ["requirements-run.lock", "requirements.lock"])
def test_broken_lock_is_refused(name: str, tmp_path: Path) -> None:
    """A line of a lock file that pins nothing is refused by the file's name: its package would be left out."""
    (tmp_path / name).write_text("# comment\nnumpy>=2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{name}: expected NAME==VERSION, found 'numpy>=2'"):
        list(read_lock(tmp_path / name))


def test_provenance_names_all_files(release: Path) -> None:
    """The provenance has the digest of every file that it describes, the commit and the lock files."""
    statement = load(release, "provenance.json")
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    files = [path for path in release.iterdir() if path.suffix in {".whl", ".gz"} or path.name.endswith(".cdx.json")]
    assert subjects == {path.name: build.digest(path) for path in files}
    resolved = {entry["name"] for entry in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {"requirements-build.lock", "requirements-run.lock", "requirements.lock"} <= resolved


def test_time_is_required_without_clone(tmp_path: Path) -> None:
    """Without a Git repository the build needs SOURCE_DATE_EPOCH, and says so."""
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH: expected"):
        build.find_source(tmp_path, {})
    assert build.find_source(tmp_path, {"SOURCE_DATE_EPOCH": "7"}) == Source(tmp_path, None, 7)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_demo_runs_from_wheel(release: Path, root: Path) -> None:
    """The wheel, installed in a new environment with the locked dependencies, runs `demo`."""
    assert os.environ.get("PYTHONPATH") is None
    (wheel,) = release.glob("*.whl")
    try_wheel(root, wheel)
