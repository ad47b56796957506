"""Build the files of a release: `python -m deploy.dist.build` (`make dist`). docs/releases.md describes them.

The source archive, and the wheel from it, are built twice, from two copies of the commit in different folders, with
another time zone, locale, umask and hash seed. The build fails unless both are the same, byte by byte. The provenance
is an in-toto statement with the predicate of SLSA. It is not signed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as find_version
from pathlib import Path
from typing import Any, Final

from deploy.dist.sbom import Release, make_sbom, read_lock

ROOT: Final = Path(__file__).parents[2]
NAME: Final = "location_monitor"
SUMS: Final = "SHA256SUMS"
NOT_SOURCE: Final = (".venv*", "dist", "build", "__pycache__", ".*_cache", ".hypothesis")
"""What a copy leaves out if there is no Git repository."""

LOCKS: Final = ("requirements-build.lock", "requirements-install.lock", "requirements-run.lock", "requirements.lock")
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "tag:location-monitor.org,2026:make-dist"

FIRST: Final[Mapping[str, str]] = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}
SECOND: Final[Mapping[str, str]] = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "2"}
UMASKS: Final = (0o022, 0o077)

ALWAYS: Final = "python_version >= '3'"
EXTRA: Final = "embedded"  # the servers that `demo` starts


class NotReproducibleError(Exception):
    """Two builds of the same commit differ."""


@dataclass(frozen=True, slots=True)
class Source:
    """A commit to build. `commit` is None if there is no Git repository, and `epoch` is its time in seconds."""

    root: Path
    commit: str | None
    epoch: int


def find_source(root: Path, environ: Mapping[str, str]) -> Source:
    """Return the commit to build and its time. SOURCE_DATE_EPOCH replaces the time.

    Raises:
        ValueError: there is neither a Git repository nor SOURCE_DATE_EPOCH.
    """
    given = environ.get("SOURCE_DATE_EPOCH")
    if not (root / ".git").exists():
        if given is None:
            raise ValueError(
                "SOURCE_DATE_EPOCH: expected the time of the source in seconds since 1970, because this is not a Git "
                "repository; set it"
            )
        return Source(root, None, int(given))
    commit, time = _git(root, "log", "-1", "--format=%H %ct").split()
    return Source(root, commit, int(given or time))


def _git(root: Path, *words: str) -> str:
    git = ["git", "-C", str(root), *words]
    return subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603  # fixed words


def export(source: Source, folder: Path) -> Path:
    """Copy the files of the commit, without files that are not in Git, and return the folder."""
    if source.commit is None:
        shutil.copytree(source.root, folder, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    else:
        _git(source.root, "clone", "--quiet", "--no-checkout", ".", str(folder))
        _git(folder, "checkout", "--quiet", source.commit)
    return folder


def build(source: Path, out: Path, epoch: int, environ: Mapping[str, str], umask: int) -> dict[str, Path]:
    """Build the source archive of a folder, and the wheel from it, into `out`. Return both by name."""
    subprocess.run(  # noqa: S603  # fixed words
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)],
        cwd=source,
        env={**os.environ, **environ, "SOURCE_DATE_EPOCH": str(epoch)},
        umask=umask,
        check=True,
        capture_output=True,
    )
    return {path.name: path for path in sorted(out.iterdir())}


def build_twice(source: Source, folder: Path) -> dict[str, Path]:
    """Build the files in two different environments. Return the first files, whose source is then in `folder/one`.

    Raises:
        NotReproducibleError: a file differs.
    """
    first = build(export(source, folder / "one"), folder / "first", source.epoch, FIRST, UMASKS[0])
    again = build(export(source, folder / "another" / "place"), folder / "second", source.epoch, SECOND, UMASKS[1])
    require_same(first, again)
    return first


def require_same(first: Mapping[str, Path], again: Mapping[str, Path]) -> None:
    """Compare two builds byte by byte.

    Raises:
        NotReproducibleError: a file is missing or differs.
    """
    if first.keys() != again.keys():
        raise NotReproducibleError(f"two builds have different files: {sorted(first)} and {sorted(again)}")
    differing = [name for name, path in first.items() if path.read_bytes() != again[name].read_bytes()]
    if differing:
        raise NotReproducibleError(f"{', '.join(differing)}: two builds of the same commit differ")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe_build(root: Path, commit: str | None, epoch: int, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the statement: from which commit, at which time and with which tools these files were built.

    Args:
        root: the folder with the lock files.
        commit: the commit that was built; None if there is no Git repository.
        epoch: SOURCE_DATE_EPOCH, in seconds since 1970.
        files: the SHA-256 of each file, by name.
    """
    locks = [
        {"name": name, "digest": {"sha256": digest(root / name)}} for name in LOCKS
    ]
    source = [] if commit is None else [{"name": "source", "digest": {"gitCommit": commit}}]
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": checksum}} for name, checksum in files.items()],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "SOURCE_DATE_EPOCH": str(epoch)},
                "internalParameters": {"hatchling": find_version("hatchling"), "python": platform.python_version()},
                "resolvedDependencies": [*source, *locks],
            },
            "runDetails": {"builder": {"id": f"{BUILD_TYPE}#local"}},
        },
    }


def write_release(source: Source, exported: Path, files: Mapping[str, Path], out: Path) -> Path:
    """Write the files, their SBOM, provenance and checksums into an empty folder `out`, and return the wheel.

    `exported` is the folder with the source of the files.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    copies = [shutil.copy2(path, out) for path in files.values()]
    (wheel,) = (Path(path) for path in copies if Path(path).suffix == ".whl")
    version = wheel.name.split("-")[1]
    release = Release(version, wheel.name, digest(wheel), source.epoch)
    (out / f"{NAME}-{version}.cdx.json").write_text(make_sbom(exported, release), encoding="utf-8")
    described = {path.name: digest(path) for path in sorted(out.iterdir())}
    statement = describe_build(exported, source.commit, source.epoch, described)
    text = json.dumps(statement, indent=2, sort_keys=True) + "\n"
    (out / f"{NAME}-{version}.provenance.json").write_text(text, encoding="utf-8")
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir()))
    (out / SUMS).write_text(sums, encoding="utf-8")
    return wheel


def try_wheel(root: Path, wheel: Path) -> None:
    """Install a wheel in a new environment, and run `demo` in an empty folder.

    Raises:
        subprocess.CalledProcessError: a step failed; its output is on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="location-monitor-trial-") as name:
        folder = Path(name)
        program = install(root, wheel, folder / "venv")
        # Only these variables: nothing of the checkout's environment can replace a part of the wheel.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "COLUMNS": "120"}
        subprocess.run([program, "demo"], cwd=folder, env=environment, check=True)  # noqa: S603  # the wheel's command


def install(root: Path, wheel: Path, folder: Path) -> Path:
    """Install a wheel with the locked versions of its dependencies, and return the path of its command."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)  # noqa: S603  # fixed words
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    # The pins have no hashes: with hashes, pip would refuse the wheel, whose own requirements are ranges.
    locked = folder / "constraints.txt"
    pins = read_lock(root / "requirements.lock")
    locked.write_text(
        "".join(f"{pin.name}=={pin.version} ; {pin.marker or ALWAYS}\n" for pin in pins), encoding="utf-8"
    )
    wanted = ["--only-binary", ":all:", "--constraint", str(locked), f"{wheel}[{EXTRA}]"]
    subprocess.run([*pip, "install", *wanted], check=True)  # noqa: S603  # fixed words
    return folder / "bin" / "location-monitor"


def main(arguments: Sequence[str]) -> None:
    """Build a release into `dist/`. With `--try`, install the wheel in a new environment and run `demo` from it."""
    source, out = find_source(ROOT, os.environ), ROOT / "dist"
    if source.commit is not None and _git(ROOT, "status", "--porcelain"):
        print("make dist: changes that are not committed are not part of the build.", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="location-monitor-dist-") as folder:
        files = build_twice(source, Path(folder))
        wheel = write_release(source, Path(folder) / "one", files, out)
    print((out / SUMS).read_text(encoding="utf-8"), end="")
    if "--try" in arguments:
        try_wheel(ROOT, wheel)


if __name__ == "__main__":
    main(sys.argv[1:])
