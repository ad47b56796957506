"""The JSON Schema of the chart's values. It embeds the schema of the service's configuration.

Helm's validator does not support look-ahead in patterns, and reports every alternative of a `oneOf`. So the monitors,
which the key `kind` distinguishes, become conditions: an error then names the invalid key of the monitor.
"""

from __future__ import annotations

import json
from typing import Any, Final

from monitor.config import Config
from monitor.stop_times import GRACE_SECONDS

Schema = dict[str, Any]

_NAME: Final[Schema] = {"type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"}
_KEY: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"}
_MAPPING: Final[Schema] = {"type": "object"}
_LABELS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_LIST: Final[Schema] = {"type": "array", "items": {"type": "object"}}
_FLAG: Final[Schema] = {"type": "boolean"}
_TEXT: Final[Schema] = {"type": "string"}
_PORTS: Final[Schema] = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}}
_FILES: Final = {
    "locations": ["file"],
    "visits": ["person_key_file"],
    "kafka": ["password_file", "ca_file", "certificate_file", "key_file"],
    "redis": ["password_file", "ca_file"],
}
"""The keys of the configuration that the chart sets, by section."""


def _closed(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return schema | {"required": list(required)} if required else schema


def _secret(*keys: str, required: bool = False) -> Schema:
    name = {**_NAME, "minLength": 1} if required else _NAME
    return _closed({"existingSecret": name, **dict.fromkeys(keys, _KEY)}, ("existingSecret",) if required else ())


def _count(least: int) -> Schema:
    return {"type": "integer", "minimum": least}


def embed_configuration() -> tuple[Schema, Schema]:
    """Return the configuration's schema and its definitions in draft 7, which every Helm 3 supports."""
    text = json.dumps(Config.model_json_schema()).replace("#/$defs/", "#/definitions/")
    schema: Schema = json.loads(text)
    definitions: Schema = schema.pop("$defs")
    monitors: Schema = schema["properties"]["monitors"]
    monitors["items"] = _by_kind(monitors["items"])
    for section, keys in _FILES.items():
        owner = definitions[schema["properties"][section]["$ref"].rpartition("/")[2]]
        for key in keys:
            del owner["properties"][key]
        owner["required"] = [key for key in owner.get("required", ()) if key not in keys]
    schema["required"] = [key for key in schema["required"] if key != "locations"]
    return schema, definitions


def _by_kind(alternatives: Schema) -> Schema:
    """Return a schema with conditions on `kind` instead of alternatives."""
    references: dict[str, str] = alternatives["discriminator"]["mapping"]
    return {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"enum": list(references)}},
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": {"$ref": reference}}
            for kind, reference in references.items()
        ],
    }


def _secrets() -> Schema:
    return _closed(
        {
            "personKey": _secret("key", required=True),
            "kafkaPassword": _secret("key"),
            "kafkaCa": _secret("key"),
            "kafkaClient": _secret("certificateKey", "privateKey"),
            "redisPassword": _secret("key"),
            "redisCa": _secret("key"),
        }
    )


def _image() -> Schema:
    return _closed(
        {
            "repository": {"type": "string", "minLength": 1},
            "tag": _TEXT,
            "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
            "pullSecrets": _LIST,
        }
    )


def _pods() -> Schema:
    """Return the schemas of the values about pods."""
    return {
        "replicas": _count(1),
        "strategy": {"enum": ["RollingUpdate", "Recreate"]},
        "progressDeadlineSeconds": _count(60),
        "terminationGracePeriodSeconds": _count(int(GRACE_SECONDS)),
        "resources": _MAPPING,
        "serviceAccountName": _NAME,
        "priorityClassName": _NAME,
        "nodeSelector": _LABELS,
        "tolerations": _LIST,
        "affinity": _MAPPING,
        "podLabels": _LABELS,
        "podAnnotations": _LABELS,
        "podDisruptionBudget": _closed({"enabled": _FLAG}),
        "preflight": _closed(
            {"enabled": _FLAG, "createTopics": _FLAG, "timeoutSeconds": _count(30), "resources": _MAPPING}
        ),
    }


def _surroundings() -> Schema:
    """Return the schemas of the values about network, monitoring, autoscaling and Strimzi."""
    return {
        "networkPolicy": _closed(
            {
                "enabled": _FLAG,
                **dict.fromkeys(("metricsFrom", "dnsTo", "kafkaTo", "redisTo", "otelTo"), _LIST),
                **dict.fromkeys(("extraKafkaPorts", "extraRedisPorts", "extraOtelPorts"), _PORTS),
            }
        ),
        "monitoring": _closed(
            {
                "job": _TEXT,
                "podMonitor": _closed({"enabled": _FLAG, "interval": _TEXT, "labels": _LABELS}),
                "prometheusRule": _closed({"enabled": _FLAG, "labels": _LABELS, "runbookBase": _TEXT}),
            }
        ),
        "autoscaling": _autoscaling(),
        "strimzi": _closed(
            {
                "cluster": _NAME,
                "maxMessageBytes": _count(1),
                "user": _closed({"name": _NAME, "authentication": {"enum": ["scram-sha-512", "tls", "tls-external"]}}),
            }
        ),
    }


def _autoscaling() -> Schema:
    schema = _closed(
        {
            "enabled": _FLAG,
            "prometheusAddress": _TEXT,
            "maxReplicas": _count(0),
            "lagPerReplica": _count(1),
            "scaleDownSeconds": {"type": "integer", "minimum": 300, "maximum": 3600},
        }
    )
    address = {"properties": {"prometheusAddress": {"pattern": "^https?://"}}}
    return schema | {"if": {"properties": {"enabled": {"const": True}}}, "then": address}


def _one_registry() -> Schema:
    """Return the schema of values in which exactly one source of the registry is not empty."""
    sources = ("csv", "existingConfigMap", "existingClaim")
    given: list[Schema] = [{"properties": {source: {"minLength": 1}}, "required": [source]} for source in sources]
    return {"properties": {"registry": {"oneOf": given}}}


def values_schema() -> Schema:
    """Return the schema of the chart's values."""
    config, definitions = embed_configuration()
    cluster = {"properties": {"strimzi": {"properties": {"cluster": {"minLength": 1}}}}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart location-monitor. Generated by `make chart`.",
        **_closed(
            {
                "component": {"enum": ["service", "kafka"]},
                "nameOverride": _NAME,
                "fullnameOverride": _NAME,
                "global": _MAPPING,
                "image": _image(),
                "config": config,
                "registry": _closed(
                    {
                        "csv": _TEXT,
                        "existingConfigMap": _NAME,
                        "existingClaim": _NAME,
                        "file": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"},
                    }
                ),
                "secrets": _secrets(),
                **_pods(),
                **_surroundings(),
            },
            ("config", "secrets"),
        ),
        "if": {"properties": {"component": {"const": "kafka"}}},
        "then": cluster,
        "else": _one_registry(),
        "definitions": definitions,
    }
