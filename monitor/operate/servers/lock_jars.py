"""Write the lock of a version of Kafka: `python -m monitor.operate.servers.lock_jars 4.3.0 > kafka.lock`.

jgo resolves Kafka without its logger, because the logger's bill of materials would downgrade kafka-clients.
`log4j-slf4j-impl`, which connects SLF4J to Log4j, is then added in the version of Kafka's log4j-core. Kafka 3 was
written for Log4j 1 and has no logger at all: it gets Log4j 2 with `log4j-1.2-api`, so that one configuration suffices.
A new version also needs its own checkpoint beside the lock (kafka.py).
"""

from __future__ import annotations

import hashlib
import sys
from typing import TextIO

import jgo

_KAFKA = "org.apache.kafka:kafka_2.13"
_LOG4J = "org.apache.logging.log4j"
_LOG4J_FOR_KAFKA_3 = "2.25.5"


def write_lock(version: str, out: TextIO) -> None:
    """Resolve and fetch Kafka's jars, and write one line per jar: SHA-256, size in bytes, coordinates."""
    artifacts = jgo.resolve(f"{_KAFKA}:{version}")
    core = next((a for a in artifacts if (a.groupId, a.artifactId) == (_LOG4J, "log4j-core")), None)
    names = ["log4j-slf4j-impl"] if core else ["log4j-slf4j-impl", "log4j-core", "log4j-api", "log4j-1.2-api"]
    log4j = core.version if core else _LOG4J_FOR_KAFKA_3
    added = [artifacts[0].context.project(_LOG4J, name).at_version(log4j).artifact() for name in names]
    out.write(f"# Apache Kafka {version}: SHA-256, bytes, Maven coordinates (monitor/operate/servers/lock_jars.py).\n")
    for artifact in [*artifacts, *added]:
        jar = artifact.resolve().read_bytes()
        name = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}"
        out.write(f"{hashlib.sha256(jar).hexdigest()} {len(jar)} {name}\n")


if __name__ == "__main__":
    write_lock(sys.argv[1], sys.stdout)
