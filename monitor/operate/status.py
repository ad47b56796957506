"""`location-monitor status`: what a running instance reports, at a glance."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import click
from prometheus_client.parser import text_string_to_metric_families

from monitor.errors import EXIT_FAILED, UnreachableError, UsageError
from monitor.observe.prometheus_metric import PREFIX
from monitor.time.instants import SECOND, format_instant

_TIMEOUT_SECONDS: Final = 10.0
_BEGINNINGS: Final = {"takeover": "takeovers", "no_progress": "input partitions without facts in Redis"}
"""The recoveries that belong to a healthy start, in words."""

Samples = Mapping[str, Mapping[str, float]]
"""The samples of each metric, summed by their main label: the output or input partition, the outcome or the cause."""


@click.command()
@click.argument("address", default="http://localhost:9108")
def status(address: str) -> None:
    """Show what a running instance waits for, its ticks and lag.

    ADDRESS is `metrics.host` and `metrics.port` of the instance. The exit code is 1 if the instance is not ready.
    """
    if not address.startswith(("http://", "https://")):
        raise UsageError(f"ADDRESS is {address!r}: expected a URL such as http://localhost:9108")
    base = address.rstrip("/")
    try:
        waiting = json.loads(_read(f"{base}/readyz"))
        ready = waiting.pop("ok")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            f"{base}/readyz is not the answer of an instance: expected metrics.host:metrics.port"
        ) from None
    for loop, reason in waiting.items():
        click.echo(f"waits      {loop}: {reason}")
    samples = read_samples(_read(f"{base}/metrics").decode())
    for name, text in (("ready", "yes" if ready else "no"), *describe(samples, time.time())):
        click.echo(f"{name:10} {text}")
    if not ready:
        sys.exit(EXIT_FAILED)


def _read(url: str) -> bytes:
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310  # the scheme is checked
            return bytes(response.read())
    except HTTPError as error:  # 503: the instance is not ready
        with error:
            return error.read()
    except OSError as error:
        raise UnreachableError(
            f"{url} does not answer ({error}): expected the metrics of a running instance; see metrics.port"
        ) from error


def read_samples(page: str) -> Samples:
    """Return the samples of a metrics page. Values of a metric with the same main label are added."""
    samples: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = sample.labels
            main = next(
                (labels[label] for label in ("partition", "outcome", "cause", "version") if label in labels), ""
            )
            samples[sample.name.removeprefix(f"{PREFIX}_")][main] += sample.value
    return samples


def describe(samples: Samples, now: float) -> Iterator[tuple[str, str]]:
    """Yield the lines about an instance: a name and a text. `now` is in seconds since 1970."""
    for partition, as_of in sorted(samples["last_tick_timestamp_seconds"].items()):
        unknown = int(samples["consecutive_unknown_ticks"].get(partition, 0))
        state = f"unknown at {unknown} ticks in a row" if unknown else "known"
        text = f"up to {format_instant(int(as_of) * SECOND)}, {now - as_of:,.0f} s ago, {state}"
        yield "answers", f"output partition {partition}: {text}"
    if not samples["last_tick_timestamp_seconds"]:
        yield "answers", "no output partition: another instance publishes, or none yet"
    lag = samples["consumer_lag_records"]
    behind = "0 records" if lag else "no input partition"
    yield "lag", _join(lag, "records of input partition {}") or behind
    yield "missing", _join(samples["tick_missing_records"], "records of input partition {} at the last tick") or "none"
    yield "ticks", _join(samples["ticks_total"], "{}") or "none yet"
    yield "unknown", _join(samples["unknown_shards_total"], "shards because of {}") or "none"
    recoveries = samples["recoveries_total"]
    began = {text: recoveries.get(cause, 0) for cause, text in _BEGINNINGS.items()}
    yield "began", _join(began, "{}") or "nothing yet"
    later = {cause: number for cause, number in recoveries.items() if cause not in _BEGINNINGS}
    yield "recovered", _join(later, "times because of {}") or "never"
    stated, worst = samples["epsilon_stated"].get("", 0), samples["epsilon_worst_case"].get("", 0)
    yield "ε", f"{stated:g} stated, {worst:g} in the worst case of this configuration"
    yield "version", ", ".join(samples["build_info"])


def _join(values: Mapping[str, float], form: str) -> str:
    """Return the values other than 0 as text."""
    return ", ".join(f"{value:,.0f} {form.format(name)}" for name, value in sorted(values.items()) if value)
