"""Two threads that receive the first answers of one kind at the same time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kafka.protocol.producer import EndTxnResponse
from kafka.protocol.schemas.fields.struct import StructField

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections

COMMITTED = bytes(7)
"""The answer to a commit, in version 3: no delay, no error, no tags."""


def test_first_answers_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Two threads that decode the first answers of one kind leave a decoder that works.

        thread 1   compiles ............... ends, and restores the shared attribute
        thread 2            begins | waits                                          compiles

    In kafka-python alone, thread 2 begins before the end of thread 1, and reads the attribute after it.
    """
    with pytest.raises(UnreachableError):
        KafkaConnections(("127.0.0.1:9",)).create_admin()
    struct, emit = EndTxnResponse._struct, StructField.emit_decode_from  # noqa: SLF001  # the part that is replaced
    monkeypatch.setattr(struct, "_compiled_encoders", {})
    begun, ended = threading.Event(), threading.Event()
    second = threading.Thread(target=lambda: EndTxnResponse.decode(COMMITTED, version=3))

    def meet(field: StructField, *arguments: Any, **named: Any) -> None:
        if threading.current_thread() is second:
            begun.set()
            ended.wait(10)
        else:
            second.start()
            begun.wait(0.5)  # it waits for the lock, so this ends without it
        emit(field, *arguments, **named)

    monkeypatch.setattr(StructField, "emit_decode_from", meet)
    assert EndTxnResponse.decode(COMMITTED, version=3).error_code == 0
    ended.set()
    second.join(10)
    assert EndTxnResponse.decode(COMMITTED, version=3).error_code == 0
