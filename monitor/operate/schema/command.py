"""`location-monitor schema`: the published schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final

import click
import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from monitor.config.whole_config import Config
from monitor.kinds.all_answers import ANSWERS
from monitor.kinds.all_kinds import KINDS
from monitor.kinds.all_records import RECORDS
from monitor.operate.schema.examples import make_examples, name_message
from monitor.records.charges_record import TimeCharges
from monitor.records.checkpoints import CHECKPOINT
from monitor.records.dead_letter_record import DeadLetterHeaders
from monitor.records.fields import describe_fraction
from monitor.records.output_records import LEDGER, OWNER, TYPE_PREFIX, CloudEventHeaders
from monitor.records.visit_contract import Visit, VisitBatch

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_VISITS: Final[tuple[type[BaseModel], ...]] = (VisitBatch, Visit)
_ALERTS: Final = tuple(RECORDS[ce_type] for ce_type in (*ANSWERS, CHECKPOINT, OWNER, LEDGER))
_HEADERS: Final[tuple[type, ...]] = (CloudEventHeaders, DeadLetterHeaders)


def build_visits_schema() -> Schema:
    """Return the JSON Schema of the values of the input topic: a batch of visits, or a single visit."""
    return _build_any_of("Visits", "The values of the input topic: a batch of visits, or a single visit.", _VISITS)


def build_alerts_schema() -> Schema:
    """Return the JSON Schema of the values of the output topic."""
    return _build_any_of("Alerts", "The values of the output topic, by the header ce_type.", _ALERTS)


def _build_any_of(title: str, description: str, models: Sequence[type]) -> Schema:
    return {
        "$schema": DIALECT,
        "title": title,
        "description": description,
        "anyOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in models],
        "$defs": _build_definitions(models, "#/$defs/{model}"),
    }


def _build_definitions(models: Sequence[type], template: str) -> Schema:
    """Return the schemas of models of pydantic and of structs, by name."""
    pydantic = [model for model in models if issubclass(model, BaseModel)]
    _, schema = models_json_schema([(model, "validation") for model in pydantic], ref_template=template)
    structs = {model.__name__: model for model in models if not issubclass(model, BaseModel)}
    _, definitions = msgspec.json.schema_components(
        structs.values(), schema_hook=describe_fraction, ref_template=template.format(model="{name}")
    )
    tidied = {name: _tidy(definition) for name, definition in definitions.items()}
    if (charges := tidied.get(TimeCharges.__name__)) is not None:
        charges["properties"]["kind"]["enum"] = [charge for kind in KINDS.values() for charge in kind.keys.charged]
    built: Schema = schema.get("$defs", {})
    return built | {
        name: {**definition, **getattr(structs.get(name), "conditions", {})} for name, definition in tidied.items()
    }


def _tidy(definition: Schema) -> Schema:
    """Remove the indent of the docstring, and the defaults: a key that is left out is not null."""
    properties = {
        name: {key: value for key, value in each.items() if key != "default"}
        for name, each in definition["properties"].items()
    }
    return {**definition, "description": cleandoc(definition["description"]), "properties": properties}


def _refer_to(kind: str, name: str) -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def _describe_event(title: str, ce_type: str, key: str) -> Schema:
    """Return a message of the output topic: CloudEvents headers with its own ce_type, and its payload."""
    model = RECORDS[ce_type]
    return {
        "title": title,
        "summary": (model.__doc__ or "").splitlines()[0],
        "contentType": "application/json",
        "headers": {
            "allOf": [
                _refer_to("schemas", CloudEventHeaders.__name__),
                {"properties": {"ce_type": {"const": ce_type}}},
            ],
        },
        "payload": _refer_to("schemas", model.__name__),
        "bindings": {"kafka": {"key": {"type": "string", "description": key}}},
    }


def _name_answer(ce_type: str) -> str:
    """Return the name of an answer in AsyncAPI."""
    return name_message(ce_type.removeprefix(TYPE_PREFIX))


def _build_messages() -> Schema:
    shown = make_examples()
    return {
        name: {**message, "examples": [example.message for example in shown[name]]}
        for name, message in _describe_messages().items()
    }


def _describe_messages() -> Schema:
    return {
        "visits": {
            "title": "Visits",
            "summary": "A batch of visits, or a single visit. Each visit is accepted or refused independently.",
            "contentType": "application/json",
            "payload": {"anyOf": [_refer_to("schemas", model.__name__) for model in _VISITS]},
            "bindings": {"kafka": {"key": {"type": "string", "description": "Any key, or no key."}}},
        },
        **{_name_answer(ce_type): _describe_event(form.title, ce_type, form.key) for ce_type, form in ANSWERS.items()},
        "checkpoint": _describe_event("The signed end of a tick", CHECKPOINT, "checkpoint"),
        "owner": _describe_event("A change of writer", OWNER, "owner"),
        "ledger": _describe_event("The ledger's first record", LEDGER, "ledger"),
        "deadLetter": {
            "title": "A dead letter",
            "summary": "The raw bytes of an undecodable record, or one refused visit as JSON. Contains personal data.",
            "contentType": "application/octet-stream",
            "headers": _refer_to("schemas", DeadLetterHeaders.__name__),
            "payload": {"description": "Raw bytes, or a visit as JSON; cut if the header truncated is present."},
        },
    }


_CHANNELS: Final[Mapping[str, tuple[str, str, tuple[str, ...], str]]] = {
    "visits": ("visits", "The input.", ("visits",), "receive"),
    "alerts": (
        "safety-alerts",
        "The output. Retention by time, no compaction: each tick repeats the state that is still valid.",
        (*map(_name_answer, ANSWERS), "checkpoint", "owner", "ledger"),
        "send",
    ),
    "deadLetters": (
        "visits.dead-letters",
        "Refused records and visits, with the reason. The topic needs its own access rules.",
        ("deadLetter",),
        "send",
    ),
}


_ADDRESS: Final[Schema] = {
    "host": "{host}:{port}",
    "variables": {
        "host": {"default": "localhost", "description": "kafka.bootstrap_servers of the configuration."},
        "port": {"default": "9092"},
    },
}
_SECURITY: Final[Mapping[str, Schema]] = {
    "certificate": {"type": "X509", "description": "A client certificate: kafka.certificate_file and kafka.key_file."},
    "plain": {"type": "plain", "description": "kafka.sasl_mechanism is PLAIN."},
    "scramSha256": {"type": "scramSha256", "description": "kafka.sasl_mechanism is SCRAM-SHA-256."},
    "scramSha512": {"type": "scramSha512", "description": "kafka.sasl_mechanism is SCRAM-SHA-512."},
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "kafka.sasl_mechanism is OAUTHBEARER.",
    },
}


def _describe_servers() -> Schema:
    """Return the kinds of servers. Subscribers need Read and Describe for the output topic, and no consumer group."""

    def describe(protocol: str, description: str, schemes: Sequence[str]) -> Schema:
        security = {"security": [_refer_to("securitySchemes", scheme) for scheme in schemes]} if schemes else {}
        return {**_ADDRESS, "protocol": protocol, "description": description, **security}

    sasl = ("plain", "scramSha256", "scramSha512", "token")
    return {
        "open": describe("kafka", "PLAINTEXT: without credentials, for tests.", ()),
        "sasl": describe("kafka", "SASL_PLAINTEXT: within a protected network.", sasl),
        "tls": describe(
            "kafka-secure", "SSL: with a client certificate, if the brokers ask for one.", ("certificate",)
        ),
        "saslTls": describe("kafka-secure", "SASL_SSL.", sasl),
    }


def build_asyncapi() -> Schema:
    """Return the AsyncAPI 3 document, with three channels at the default topic names."""
    models = (*_VISITS, *_ALERTS, *_HEADERS)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Location-safety monitor",
            "version": "1.0.0",
            "description": "Publishes which places are safe, under asymmetric differential privacy.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": _describe_servers(),
        "channels": {
            name: {
                "address": address,
                "description": description,
                "messages": {message: _refer_to("messages", message) for message in messages},
                "bindings": {"kafka": {"topic": address}},
            }
            for name, (address, description, messages, _) in _CHANNELS.items()
        },
        "operations": {
            f"{action}{name[0].upper()}{name[1:]}": {"action": action, "channel": {"$ref": f"#/channels/{name}"}}
            for name, (_, _, _, action) in _CHANNELS.items()
        },
        "components": {
            "messages": _build_messages(),
            "schemas": _build_definitions(models, "#/components/schemas/{model}"),
            "securitySchemes": dict(_SECURITY),
        },
    }


SCHEMAS: Final[dict[str, Callable[[], Schema]]] = {
    "visits": build_visits_schema,
    "alerts": build_alerts_schema,
    "asyncapi": build_asyncapi,
}
"""What builds each published schema, by its name in `location-monitor schema`."""


@click.command()
@click.argument("what", type=click.Choice(["config", *SCHEMAS]))
def schema(what: str) -> None:
    """Print a JSON Schema, or the AsyncAPI document."""
    build = Config.model_json_schema if what == "config" else SCHEMAS[what]
    click.echo(json.dumps(build(), indent=2, ensure_ascii=False))
