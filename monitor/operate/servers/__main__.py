"""Create the archive of Kafka's classes, unless it exists: `python -m monitor.operate.servers`."""

from __future__ import annotations

import sys

from monitor.errors import EmbeddedError
from monitor.operate.servers.kafka import EmbeddedKafka


def main() -> None:
    """Create the archive. If that fails, print why: Kafka also starts without it."""
    try:
        EmbeddedKafka(report=lambda line: print(line, flush=True)).archive_classes()
    except (EmbeddedError, OSError) as error:
        print(f"Kafka starts more slowly, without an archive of its classes: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
