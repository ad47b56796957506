"""The rights of each user at Kafka and at the store, as docs/operations.md lists them (sections Access, Redis)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from monitor.config.whole_config import Config

STORE_RULES: Final = (
    "-@all +ping +info +scan +eval +exists +zadd +sadd +zcount +smembers +type +hget +hset +hsetnx +hgetall +hkeys "
    "+hexists +hdel +expire +zrangebyscore +zrem +zremrangebyscore +unlink +time"
)
"""What the service may do at the store."""

TRANSACTIONS: Final = "location-monitor."
"""The prefix of the service's transactional ids."""


class Right(NamedTuple):
    """Operations on a resource of Kafka: a topic by name, or groups or transactional ids by their prefix."""

    kind: ResourceType
    name: str
    operations: tuple[ACLOperation, ...]

    @property
    def pattern(self) -> ACLResourcePatternType:
        """Whether the name is a prefix."""
        of_topic = self.kind is ResourceType.TOPIC
        return ACLResourcePatternType.LITERAL if of_topic else ACLResourcePatternType.PREFIXED

    def make_entries(self, user: str) -> Iterator[ACL]:
        """Yield the entries of Kafka's access list."""
        resource = ResourcePattern(self.kind, self.name, self.pattern)
        for operation in self.operations:
            yield ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, resource)

    def format_command(self, user: str) -> str:
        """Return the options of `kafka-acls.sh` that grant the right."""
        kind = self.kind.name.lower().replace("_", "-")
        prefixed = " --resource-pattern-type prefixed" if self.pattern is ACLResourcePatternType.PREFIXED else ""
        operations = "".join(f" --operation {_spell(operation)}" for operation in self.operations)
        return f"--add --allow-principal User:{user} --{kind} {self.name}{prefixed}{operations}"


def _spell(operation: ACLOperation) -> str:
    """Return the name of an operation as Kafka's programs write it, such as DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.name.split("_"))


def list_rights(config: Config, service: str) -> dict[str, tuple[Right, ...]]:
    """Return the rights by user. `service`: the name of the service's user."""
    topics, of_topic = config.kafka.topics, ResourceType.TOPIC
    read, write = (ACLOperation.READ,), (ACLOperation.WRITE,)
    create, configs = ACLOperation.CREATE, ACLOperation.DESCRIBE_CONFIGS
    answers = Right(of_topic, topics.alerts, read)
    return {
        service: (
            Right(of_topic, topics.visits, (configs, *read, create)),
            Right(of_topic, topics.alerts, (configs, *read, *write, create)),
            Right(of_topic, topics.dead_letters, (configs, *write, create)),
            Right(ResourceType.GROUP, config.service.name, read),
            Right(ResourceType.TRANSACTIONAL_ID, TRANSACTIONS, write),
        ),
        "auditor": (Right(of_topic, topics.visits, read), answers),
        "page": (answers,),
        "subscriber": (answers,),
        "sender": (Right(of_topic, topics.visits, write),),
        "corrector": (Right(of_topic, topics.dead_letters, read), Right(of_topic, topics.visits, write)),
    }


def list_store_rules(service_name: str, password: str) -> str:
    """Return the rules of the service's user at the store, as `ACL SETUSER` and a file of users take them."""
    return f"on >{password} resetchannels ~{{{service_name}:* {STORE_RULES}"
