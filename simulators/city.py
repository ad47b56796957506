"""Write a simulated town to files: the reported visits, and the registry of its places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from monitor.new_files import PUBLIC
from monitor.operate.convert.files import (
    CONSENT_HEADER,
    REGISTRY_HEADER,
    VISITS_HEADER,
    consents,
    format_csv_line,
    open_atomically,
)
from monitor.operate.simulated_town import Ints, Town

_CENTRE: Final = (40.0, -30.0)  # in the open ocean, so that it is no real town
_SPREAD: Final = 0.03  # degrees


def write_registry(path: Path, places: int, seed: int) -> None:
    """Write the registry of a town's places."""
    draw = np.random.default_rng(seed)
    coordinates = (np.array(_CENTRE) + draw.normal(0, _SPREAD, (places, 2))).round(6)
    with open_atomically(path, mode=PUBLIC) as out:
        out.write(format_csv_line(REGISTRY_HEADER))
        for number, (latitude, longitude) in enumerate(coordinates.tolist(), start=1):
            out.write(format_csv_line((f"place-{number}", f"Place {number}", f"{latitude}", f"{longitude}")))


def write_city(
    path: Path, town: Town, *, all_visits: bool, on_day: Callable[[], None], consent: float | None = None
) -> tuple[int, int]:
    """Write a town's visits in order of report, and return the number of visits and of people whose visits they are.

    Only the last days are in memory.

    Args:
        path: the file, gzipped if its name ends in `.gz`.
        town: the town.
        all_visits: write the visits of all people, reported daily, for load tests. Otherwise those of infected people.
        on_day: called after each day.
        consent: the share of people who consent to lower bounds; None writes no such column.
    """
    visits, whose = 0, np.zeros(town.people, np.bool_)
    answers = [] if consent is None else [consents(f"p-{person:06}", consent) for person in range(town.people)]
    with open_atomically(path) as out:
        out.write(format_csv_line(VISITS_HEADER if consent is None else CONSENT_HEADER))
        for batch in town.list_all_visits() if all_visits else town.list_reports():
            times = (_format_times(column) for column in (batch.arrived_at, batch.left_at, batch.reported_at))
            for person, place, arrived, left, reported in zip(
                batch.person.tolist(), batch.place.tolist(), *times, strict=True
            ):
                line = f"p-{person:06},place-{place + 1},{arrived},{left},{reported}"
                if consent is not None:
                    line = f"{line},{'true' if answers[person] else 'false'}"
                out.write(f"{line}\n".encode())
            visits += len(batch)
            whose[batch.person] = True
            on_day()
    return visits, int(whose.sum())


def _format_times(instants: Ints) -> list[str]:
    return [f"{text}Z" for text in np.datetime_as_string(instants.astype("datetime64[us]"), unit="s").tolist()]
