"""An archive of Kafka's classes, with which a broker starts in half the CPU time (Java's ahead-of-time cache).

Java otherwise reads, checks and links 12,000 classes from jars at each start. The archive is optional and only makes
starts faster: Java starts without it if it is missing, or was created for another Java or for other jars. Java 25 or
later creates one when it ends.

    python -m monitor.tools.servers    create the archive, unless it exists

This takes about 5 seconds. `make test` does it once, because its tests start Kafka many times.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
