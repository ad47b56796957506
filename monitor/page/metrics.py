"""Metrics and readiness of the page. No label has a place, or a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from monitor import __version__
from monitor.observe.prometheus_metric import Collectors, Metric
from monitor.time.instants import SECOND

PAGE_METRICS: Final[tuple[Metric, ...]] = (
    Metric("gauge", "page_files", "Files in the folder, without compressed twins"),
    Metric(
        "gauge",
        "page_written_timestamp_seconds",
        "When `states.json` was written last",
        note="Absent before the first time. Open pages show every place as unknown once it is older than "
        "`page_unreachable_after_seconds`.",
    ),
    Metric(
        "counter",
        "page_write_failures",
        "How often the folder could not be written",
        note="The log and `/readyz` say why.",
    ),
    Metric(
        "counter",
        "page_foreign_records",
        "Records of the output topic that have a type for subscribers but cannot be read",
        note="They are skipped. The service does not write such records: find out who does.",
    ),
    Metric(
        "gauge",
        "page_as_of_timestamp_seconds",
        "as_of of the latest answer that the page shows",
        note="Absent before the first one.",
    ),
    Metric(
        "gauge",
        "page_source_age_seconds",
        "Time since Kafka last answered",
        note="Above `page_unreachable_after_seconds`, the page shows every place as unknown.",
    ),
    Metric(
        "gauge",
        "page_not_verified",
        "Whether answers are not shown because they are not verified: 1 or 0",
        note="1 after a wrong signature, when every place is unknown, and while an output partition has no tick that "
        "`signing.public_key` has signed (after `--since`, if it is given). `/readyz` says why. Always 0 without the "
        "key.",
    ),
    Metric("gauge", "page_unreachable_after_seconds", "How long the page may be without Kafka, as configured"),
    Metric("gauge", "page_slot_seconds", "Length of a slot"),
    Metric("gauge", "page_build_info", "Version, as a label of the constant 1", {"version": "the package's version"}),
)

_AS_OF: Final = "page_as_of_timestamp_seconds"
_WRITTEN: Final = "page_written_timestamp_seconds"


class PageMetrics(Collectors):
    """The metrics of one page, in a Prometheus registry of their own.

    Args:
        slot: the length of a slot, in microseconds.
        unreachable_after: how long the page may be without Kafka, in microseconds.
        silent_seconds: returns the seconds since Kafka last answered.
        find_unverified: returns why answers are not shown (`Verification.unverified`); empty if all are.
        find_unwritten: returns why the folder cannot be written; empty if it can.
        list_ended: returns the threads that have ended by themselves.
    """

    def __init__(
        self,
        slot: int,
        unreachable_after: int,
        silent_seconds: Callable[[], float],
        find_unverified: Callable[[], str],
        find_unwritten: Callable[[], str],
        list_ended: Callable[[], list[str]],
    ) -> None:
        super().__init__(PAGE_METRICS)
        self._gauge("page_build_info").labels(__version__).set(1)
        self._gauge("page_slot_seconds").set(slot / SECOND)
        self._gauge("page_unreachable_after_seconds").set(unreachable_after / SECOND)
        self._absent = {_AS_OF, _WRITTEN}
        for name in self._absent:
            self.registry.unregister(self._gauge(name))  # until the first answer
        self._unreachable_after = unreachable_after
        self._silent_seconds, self._find_unverified, self._list_ended = silent_seconds, find_unverified, list_ended
        self._find_unwritten = find_unwritten
        self._gauge("page_source_age_seconds").set_function(silent_seconds)
        self._gauge("page_not_verified").set_function(lambda: bool(find_unverified()))

    def count_failed(self) -> None:
        """Count that the folder could not be written."""
        self._counter("page_write_failures").inc()

    def set_written(self, at: int | None, files: int) -> None:
        """Set when `states.json` was written last, an instant, and the number of files."""
        self._gauge("page_files").set(files)
        self._set_instant(_WRITTEN, at)

    def count_foreign(self, records: int) -> None:
        """Count foreign records of the output topic."""
        self._counter("page_foreign_records").inc(records)

    def set_as_of(self, as_of: int | None) -> None:
        """Set the as_of of the latest answer, an instant; None before the first one."""
        self._set_instant(_AS_OF, as_of)

    def _set_instant(self, name: str, instant: int | None) -> None:
        if instant is None:
            return
        self._gauge(name).set(instant / SECOND)
        if name in self._absent:
            self._absent.remove(name)
            self.registry.register(self._gauge(name))

    def list_stalled(self) -> list[str]:
        """Return the threads that have ended by themselves. The process ends too, a second later."""
        return self._list_ended()

    def list_waiting(self) -> dict[str, str]:
        """Return why places are shown as unknown.

        Kafka does not answer, answers are not verified, or the folder cannot be written. A restart helps against none
        of these, so they are no reasons in `list_stalled`.
        """
        waiting, silent, unverified = dict[str, str](), self._silent_seconds(), self._find_unverified()
        if silent * SECOND > self._unreachable_after:
            waiting["kafka"] = f"no answer for {silent:.0f} s, so every place is shown as unknown"
        if unverified:
            waiting["signatures"] = f"{unverified}, so its places are shown as unknown. A restart alone does not help"
        if unwritten := self._find_unwritten():
            waiting["folder"] = f"it cannot be written ({unwritten}), so open pages show every place as unknown soon"
        return waiting
