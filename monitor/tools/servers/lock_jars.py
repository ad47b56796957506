"""Write `kafka.lock` for a version of Kafka: `python -m monitor.tools.servers.lock_jars 4.3.0 > kafka.lock`.

jgo resolves Kafka without its logger, because the logger's bill of materials would downgrade kafka-clients.
`log4j-slf4j-impl`, which connects SLF4J to Log4j, is then added in the version of Kafka's log4j-core. A new version
also needs its own `kafka-VERSION.checkpoint` (storage_format.py).
"""

from __future__ import annotations

import hashlib
import sys
from typing import TextIO

import jgo

_KAFKA = "org.apache.kafka:kafka_2.13"
_LOG4J = "org.apache.logging.log4j"


def write_lock(version: str, out: TextIO) -> None:
    """Resolve and fetch Kafka's jars, and write one line per jar: SHA-256, size in bytes, coordinates."""
    artifacts = jgo.resolve(f"{_KAFKA}:{version}")
    core = next(a for a in artifacts if (a.groupId, a.artifactId) == (_LOG4J, "log4j-core"))
    bridge = core.context.project(_LOG4J, "log4j-slf4j-impl").at_version(core.version).artifact()
    out.write(f"# Apache Kafka {version}: SHA-256, bytes, Maven coordinates (monitor/tools/servers/lock_jars.py).\n")
    for artifact in [*artifacts, bridge]:
        jar = artifact.resolve().read_bytes()
        name = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}"
        out.write(f"{hashlib.sha256(jar).hexdigest()} {len(jar)} {name}\n")


if __name__ == "__main__":
    write_lock(sys.argv[1], sys.stdout)
