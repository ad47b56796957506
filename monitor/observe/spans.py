"""Spans: named pieces of work with a beginning and an end, which operators see as traces (docs/operations.md).

A span has the fields of log lines as attributes: partitions, offsets, ticks. It never contains a value of a visit, a
person, a location, or a count of a location.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Protocol

SpanName = Literal["batch.prepare", "batch.write", "tick", "tick.read", "tick.wait", "tick.append"]

ATTRIBUTES: Final = ("batch", "records", "ledger_partition", "tick")
"""The names of all attributes. `batch`: input partitions with their offsets. `tick`: its as_of."""


class Spans(Protocol):
    """The destination of spans. Several threads use it; a span inside another one of the same thread is its child."""

    def span(self, name: SpanName, **attributes: int | str) -> AbstractContextManager[None]:
        """Return a context that is one span. An error that leaves the context marks the span with the error's class."""


class NoSpans:
    """The default: nothing is recorded."""

    def span(self, name: SpanName, **attributes: int | str) -> AbstractContextManager[None]:  # noqa: ARG002  # unused
        """Return a context that does nothing."""
        return nullcontext()


NO_SPANS: Final = NoSpans()
