"""Spans: named pieces of work with a beginning and an end, which operators see as traces (docs/operations.md).

A span has the fields of log lines as attributes: partitions, offsets, ticks. It never contains a value of a visit, a
person, a location, or a count of a location.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal

SpanName = Literal["batch.prepare", "batch.write", "tick", "tick.read", "tick.wait", "tick.append"]

ATTRIBUTES: Final = ("batch", "records", "ledger_partition", "tick")
"""The names of all attributes. `batch`: input partitions with their offsets. `tick`: its as_of."""


class Spans:
    """The destination of spans. This one records nothing: it is the default, and the base of those that record.

    Several threads use it; a span inside another one of the same thread is its child.
    """

    def span(self, name: SpanName, **attributes: int | str) -> AbstractContextManager[None]:  # noqa: ARG002  # unused
        """Return a context that is one span. An error that leaves the context marks the span with the error's class."""
        return nullcontext()


NO_SPANS: Final = Spans()
