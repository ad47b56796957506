"""The AsyncAPI document: valid for AsyncAPI's own parser, with examples that fit the schemas and CloudEvents."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.operate.schema.command import build_asyncapi
from monitor.operate.schema.examples import make_examples
from monitor.records.output_records import OutputRecord

pytestmark = pytest.mark.long

PARSER: Final = Path(__file__).with_name("asyncapi")
NAMES: Final = sorted(make_examples())
RECORDS: Final = [
    pytest.param(example.record, id=f"{message} {example.name}")
    for message, shown in make_examples().items()
    for example in shown
    if example.record is not None
]


def list_problems(found: dict[str, Any]) -> list[str]:
    """Return the errors and warnings."""
    return [f"{one['path']}: {one['message']}" for one in found["diagnostics"] if one["severity"] <= 1]


def test_parser_accepts_document(node: str, npm_packages: Callable[[Path], Path]) -> None:
    """AsyncAPI's parser has no error and no warning, and it finds a server without a host."""
    wrong = copy.deepcopy(build_asyncapi())
    del wrong["servers"]["tls"]["host"]
    documents = json.dumps([json.dumps(build_asyncapi()), json.dumps(wrong)])
    command = [node, str(npm_packages(PARSER) / "check.mjs")]
    result = subprocess.run(command, input=documents, capture_output=True, text=True, timeout=120, check=True)
    found, planted = json.loads(result.stdout)
    assert list_problems(found) == []
    assert sorted(found["messages"]) == NAMES
    assert any("host" in problem for problem in list_problems(planted))


@pytest.mark.parametrize("name", NAMES)
def test_examples_fit(name: str) -> None:
    """Each message has examples, whose headers and payload fit the schemas of the document."""
    document = build_asyncapi()
    message = document["components"]["messages"][name]
    assert message["examples"]
    for example in message["examples"]:
        for part in ("payload", "headers"):
            if part in message:
                schema = {**message[part], "components": document["components"]}
                Draft202012Validator(schema).validate(example[part])


def test_each_message_has_examples() -> None:
    """The document has no message without examples, and each status of a place is shown."""
    messages = build_asyncapi()["components"]["messages"]
    assert sorted(messages) == NAMES
    shown = {example["payload"]["status"] for example in messages["overTime"]["examples"]}
    assert shown == {"safe", "noisy_count", "paused", "unknown"}


def test_lock_names_no_registry() -> None:
    """The lock file pins each package by its digest, and contains no address of a registry."""
    packages = json.loads((PARSER / "package-lock.json").read_text())["packages"]
    assert all("integrity" in package for path, package in packages.items() if path)
    assert not [path for path, package in packages.items() if "resolved" in package]


@pytest.mark.parametrize("record", RECORDS)
def test_cloudevents_package_decodes(record: OutputRecord) -> None:
    """The official CloudEvents package reads the attributes and the value of every kind of record."""
    headers = dict(record.headers)
    event = from_binary_event(KafkaMessage(headers=headers, key=record.key, value=record.value))
    assert event.get_specversion() == "1.0"
    assert event.get_id().encode() == headers["ce_id"]
    assert event.get_source().encode() == headers["ce_source"]
    assert event.get_type().encode() == headers["ce_type"]
    assert event.get_datacontenttype() == "application/json"
    time = event.get_time()
    assert time is not None
    assert time.strftime("%Y-%m-%dT%H:%M:%SZ").encode() == headers["ce_time"]
    assert event.get_data() == json.loads(record.value)
