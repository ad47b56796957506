"""The provenance of a release: an in-toto statement with the predicate of SLSA (docs/releases.md). It is not signed."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

LOCKS: Final = ("requirements-build.lock", "requirements-install.lock", "requirements-run.lock", "requirements.lock")
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "tag:location-monitor.org,2026:make-dist"


def describe_build(root: Path, commit: str | None, epoch: int, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the statement: from which commit, at which time and with which tools these files were built.

    Args:
        root: the folder with the lock files.
        commit: the commit that was built; None if there is no Git repository.
        epoch: SOURCE_DATE_EPOCH, in seconds since 1970.
        files: the SHA-256 of each file, by name.
    """
    locks = [
        {"name": name, "digest": {"sha256": hashlib.sha256((root / name).read_bytes()).hexdigest()}} for name in LOCKS
    ]
    source = [] if commit is None else [{"name": "source", "digest": {"gitCommit": commit}}]
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "SOURCE_DATE_EPOCH": str(epoch)},
                "internalParameters": {"hatchling": version("hatchling"), "python": platform.python_version()},
                "resolvedDependencies": [*source, *locks],
            },
            "runDetails": {"builder": {"id": f"{BUILD_TYPE}#local"}},
        },
    }
