"""Draw all dashboards from a running town: `python -m deploy.grafana.pictures --write` (`make pictures`).

It takes about five minutes, and needs Prometheus and the extras `embedded`, `page` and `experiments`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.grafana.draw import draw_dashboard
from deploy.grafana.generate import BOARDS, FOLDER, JOBS_OF_SERVICE
from deploy.grafana.prometheus_data import Prometheus, Span
from deploy.grafana.town import JOBS, open_town, simulate_people
from monitor.errors import MonitorError

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
SECONDS: Final = 240
_STEP_SECONDS: Final = 2


def picture_of(uid: str) -> Path:
    """Return the path of the picture of a dashboard."""
    return PICTURES / f"dashboard-{uid.removeprefix('location-monitor-')}.png"


def draw_all(url: str, span: Span, folder: Path) -> dict[str, list[str]]:
    """Draw each dashboard into a folder. Return the panels without data, by the uid of the dashboard."""
    empty: dict[str, list[str]] = {}
    for uid, board in BOARDS.items():
        content = json.loads((FOLDER / f"{uid}.json").read_text(encoding="utf-8"))
        prometheus = Prometheus(url, JOBS[0] if board.jobs == JOBS_OF_SERVICE else ".+")
        empty[uid] = draw_dashboard(content, prometheus, span, folder / picture_of(uid).name)
    return empty


def write() -> None:
    """Run the town, and write all pictures.

    Raises:
        EmbeddedError: Kafka or Valkey could not be started.
        FailedError: Prometheus is missing, or the service does not answer.
    """
    with TemporaryDirectory(prefix="location-monitor-pictures-") as name, open_town(Path(name)) as town:
        simulate_people(town, SECONDS)
        for uid, titles in draw_all(town.url, Span(int(time.time()), SECONDS, _STEP_SECONDS), PICTURES).items():
            print(f"{picture_of(uid).name}: without data: {', '.join(titles) or 'none'}")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m deploy.grafana.pictures --write")
    try:
        write()
    except MonitorError as error:
        sys.exit(str(error))
