"""Send the queries of a dashboard's panels to Prometheus, as Grafana does."""

from __future__ import annotations

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_ANSWER_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Span:
    """The time range of a dashboard: its end and length, and the time between two points, all in whole seconds."""

    end: int
    seconds: int
    step: int

    @property
    def start(self) -> int:
        """The first point."""
        return self.end - self.seconds

    @property
    def grid(self) -> range:
        """All points."""
        return range(self.start, self.end + 1, self.step)

    def variables(self, job: str) -> Mapping[str, str]:
        """Return the values of Grafana's variables."""
        rate_interval, whole = f"{max(5, 4 * self.step)}s", f"{self.seconds}s"
        return {"$__rate_interval": rate_interval, "$__range": whole, "$job": job}


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a panel: its name in the legend, its labels, and its finite values by time in seconds."""

    name: str
    labels: Mapping[str, str]
    points: Mapping[float, float]

    @property
    def last(self) -> float:
        """The latest value."""
        return self.points[max(self.points)]


class Prometheus:
    """A Prometheus server at a URL. `job` is the value of the variable `$job`, a regular expression."""

    def __init__(self, url: str, job: str = ".+") -> None:
        self._url, self._job = url.rstrip("/"), job

    def read(self, target: Mapping[str, Any], span: Span) -> list[Series]:
        """Return the series of a panel's target; those without a finite value are left out."""
        variables = span.variables(self._job)
        query = re.sub(r"\$\w+", lambda found: variables[found.group()], target["expr"])
        if target.get("instant"):
            found = self._ask("query", query=query, time=str(span.end))
        else:
            found = self._ask("query_range", query=query, start=str(span.start), end=str(span.end), step=str(span.step))
        listed = [_read_series(each, target["legendFormat"]) for each in found]
        return [series for series in listed if series.points]

    def _ask(self, path: str, **form: str) -> Sequence[Any]:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(form)}"
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as response:  # noqa: S310  # the operator's address
            result: Sequence[Any] = json.load(response)["data"]["result"]
        return result


def _read_series(found: Mapping[str, Any], legend: str) -> Series:
    labels: Mapping[str, str] = found["metric"]
    name = re.sub(r"{{ *(\w+) *}}", lambda match: labels.get(match[1], ""), legend).strip()
    pairs = found["values"] if "values" in found else [found["value"]]
    points = {float(time): float(value) for time, value in pairs}
    return Series(name, labels, {time: value for time, value in points.items() if math.isfinite(value)})
