"""Read commands of kafka-acls.sh, which the jars of the embedded Kafka lack."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType


def parse_call(call: str) -> Iterator[ACL]:
    """Yield the entries that one call of kafka-acls.sh adds to the access list."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for option in ("--bootstrap-server", "--command-config", "--topic", "--group", "--transactional-id"):
        parser.add_argument(option)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", action="append", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    given = parser.parse_args(shlex.split(call))
    kinds = {"topic": given.topic, "group": given.group, "transactional_id": given.transactional_id}
    ((kind, name),) = [(kind, name) for kind, name in kinds.items() if name is not None]
    pattern = ACLResourcePatternType[given.resource_pattern_type.upper()]
    resource = ResourcePattern(ResourceType[kind.upper()], name, pattern)
    for user in given.allow_principal:
        for word in given.operation:
            operation = ACLOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", word).upper()]
            yield ACL(user, "*", operation, ACLPermissionType.ALLOW, resource)
