"""An archive of Kafka's classes, with which a broker starts in half the CPU time (Java's ahead-of-time cache).

Java otherwise reads, checks and links 12,000 classes from jars at each start. The archive is optional and only makes
starts faster: Java starts without it if it is missing, or was created for another Java or for other jars. Java 24 or
later can create one.

    python -m monitor.tools.servers    create the archive, unless it exists

This takes about 5 seconds. `make test` does it once, because its tests start Kafka many times.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitor.errors import EmbeddedError

_CREATION_SECONDS: Final = 120
# Without these, Java prints warnings about an archive that it does not use.
_SILENT: Final = ("-Xlog:cds=off", "-Xlog:aot=off", "-Xlog:class+path=off")


def archive_path(java: Path, jars: Sequence[Path]) -> Path:
    """Return the path of the archive for a Java runtime and a class path."""
    version = (java.parents[1] / "release").stat() if (java.parents[1] / "release").exists() else java.stat()
    named = [str(java), str(version.st_mtime_ns), *map(str, jars)]
    name = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "location-monitor" / f"kafka-classes-{name}.aot"


def archive_options(java: Path, jars: Sequence[Path]) -> tuple[str, ...]:
    """Return the options with which Java uses the archive; none if there is no archive."""
    path = archive_path(java, jars)
    return (f"-XX:AOTCache={path}", *_SILENT) if path.exists() else ()


def list_recording_options(recording: Path) -> tuple[str, ...]:
    """Return the options with which Java records the classes that it uses, in a file that it writes when it ends."""
    return ("-XX:AOTMode=record", f"-XX:AOTConfiguration={recording}")


def create_archive(java: Path, jars: Sequence[Path], options: Sequence[str], recording: Path) -> Path:
    """Create the archive of the recorded classes, and return its path. The file appears in one step.

    `options` are the options of the broker's Java. They must be the same when the archive is used.

    Raises:
        EmbeddedError: Java could not create the archive.
    """
    path = archive_path(java, jars)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".creating-", dir=path.parent) as folder:
        created = Path(folder) / path.name
        argv = [str(java), "-XX:AOTMode=create", f"-XX:AOTConfiguration={recording}", f"-XX:AOTCache={created}"]
        argv += [*options, "-cp", os.pathsep.join(map(str, jars))]
        try:
            ended = subprocess.run(argv, capture_output=True, text=True, timeout=_CREATION_SECONDS, check=False)  # noqa: S603 - Java's path, and paths of this package
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(f"The archive of Kafka's classes was not created in {_CREATION_SECONDS} s.") from error
        if ended.returncode != 0 or not created.exists():
            raise EmbeddedError(f"The archive of Kafka's classes was not created: {ended.stderr[-500:]}")
        created.replace(path)
    return path
