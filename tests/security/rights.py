"""The rights of the service's users, read from docs/operations.md."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

TOPICS: Final = {"input": "visits", "output": "safety-alerts", "dead letters": "dead-letters"}
REDIS_SECRET: Final = "planted-for-redis"  # noqa: S105  # planted, so that tests can search for it

_PAGE: Final = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
_ROW: Final = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Right:
    """One operation on one resource, as a row of the page names it. `create`: only `topics --create` needs it."""

    kind: str
    name: str
    operation: str
    create: bool

    @property
    def needed_to_create(self) -> bool:
        """Whether `topics --create` fails without it, on servers without topics."""
        return self.create or self.kind == "transactional id"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.operation}"

    @property
    def lacked_by(self) -> str:
        """The name of the user who has all other rights."""
        return re.sub(r"\W+", "-", f"without {self.kind} {self.name} {self.operation}")

    def resource(self, service: str, topics: Mapping[str, str] | None = None) -> str:
        """Return Kafka's name of the resource. `topics`: those of a service that has other topics, by purpose."""
        if self.kind == "topic":
            return (topics or list_topics(service))[self.name]
        return self.name.removeprefix("prefix: ").replace("<name>", service)

    def acl(self, user: str, service: str, topics: Mapping[str, str] | None = None) -> ACL:
        """Return the entry of Kafka's access list that grants the right."""
        word = re.sub(r"(?<!^)(?=[A-Z])", "_", self.operation).upper()
        kind = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}.get(self.kind, ResourceType.TRANSACTIONAL_ID)
        prefixed = "prefix" in self.name
        pattern = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
        name = ResourcePattern(kind, self.resource(service, topics), pattern)
        return ACL(f"User:{user}", "*", ACLOperation[word], ACLPermissionType.ALLOW, name)


def list_topics(service: str) -> dict[str, str]:
    """Return a service's topics by purpose. The city's topics have no prefix."""
    return {purpose: name if service == "city" else f"{service}.{name}" for purpose, name in TOPICS.items()}


def _read_kafka_rights(section: str) -> tuple[Right, ...]:
    rights = []
    for resource, operations, purpose in _ROW.findall(section):
        if resource in {"resource", "---"}:
            continue
        words = resource.replace("`", "").replace(",", "")
        kind = "transactional id" if words.startswith("transactional id") else words.partition(" ")[0]
        name = words.removeprefix(f"{kind} ")
        rights += [Right(kind, name, operation, purpose.startswith("only")) for operation in operations.split(", ")]
    return tuple(rights)


_OF_SERVICE, _, _OF_READERS = _PAGE.partition("### Access")[2].partition("\n## ")[0].partition("[The auditor]")
_OF_AUDITOR, _, _OF_OTHERS = _OF_READERS.partition("The user of each other command")

ALL_KAFKA_RIGHTS: Final = _read_kafka_rights(_OF_SERVICE)
KAFKA_RIGHTS: Final = tuple(right for right in ALL_KAFKA_RIGHTS if not right.create)
"""The rights that `run` needs, one operation each."""

AUDITOR: Final = "auditor"
AUDITOR_RIGHTS: Final = _read_kafka_rights(_OF_AUDITOR)
"""The rights that `audit --follow` needs, one operation each."""

OTHER_RIGHTS: Final = {
    user.strip("`"): tuple(
        Right("topic", name.removeprefix("topic, "), operation, create=False)
        for name, operation in (right.split(": ") for right in rights.split("; "))
    )
    for user, _, rights in _ROW.findall(_OF_OTHERS)
    if user.startswith("`")
}
"""The rights of the users of other commands, by the name of the user."""


def list_redis_rules() -> list[str]:
    """Return the rules of the page's access list for Redis, with a password."""
    line = re.search(r"^user location-monitor (.+)$", _PAGE, re.MULTILINE)
    assert line is not None
    return [rule.replace("PASSWORD", REDIS_SECRET) for rule in shlex.split(line[1].replace(">", "'>'"))]


REDIS_COMMANDS: Final = tuple(rule[1:] for rule in list_redis_rules() if rule.startswith("+"))
