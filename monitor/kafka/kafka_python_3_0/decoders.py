"""Decoders of answers, compiled by one thread at a time. No issue upstream was found."""

from __future__ import annotations

import threading
from typing import Any, Final

from kafka.protocol.schemas.fields.struct import StructField

_compile: Final = StructField.compiled_decode_from
_lock: Final = threading.RLock()


def _compile_alone(struct: Any, *arguments: Any, **named: Any) -> Any:
    """Return the compiled decoder of an answer, as kafka-python does, while no other thread compiles one."""
    with _lock:
        return _compile(struct, *arguments, **named)


def compile_decoders_alone() -> None:
    """Let one thread at a time compile decoders, in the whole process. Another call changes nothing.

    kafka-python 3.0.12 compiles the decoder of an answer when the first one of its kind arrives. Meanwhile it replaces
    an attribute that all threads share. If two clients receive the first such answers at the same time, the kept
    decoder may be one that always fails. Then no client of the process understands these answers any more: all commits
    of transactions time out, for example, until the process starts again.
    """
    StructField.compiled_decode_from = _compile_alone
