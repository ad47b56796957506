"""What the scenario does at Kafka and at the store, in a pod of the namespace: `python in_pod.py COMMAND WORDS…`.

The image of the service, and `traffic.py`, are all that it needs. Each command logs in as the user that may do it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import redis
import yaml
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion
from kafka.errors import KafkaError

from tests.engines.traffic import read_answers, send_visits

PASSWORDS: Final = Path("/run/secrets/passwords")
CA: Final = "/run/secrets/servers/ca.crt"
CONFIG_FILE: Final = Path("/programs/config.yaml")
CONFIG: Final = yaml.safe_load(CONFIG_FILE.read_text(encoding="utf-8"))
SECONDS: Final = 0.5


def log_in(user: str) -> dict[str, Any]:
    """Return the settings of a user's connection to Kafka."""
    return {
        "bootstrap_servers": CONFIG["kafka"]["bootstrap_servers"],
        "security_protocol": "SASL_SSL",
        "ssl_cafile": CA,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": (PASSWORDS / user).read_text(encoding="utf-8"),
    }


def grant() -> None:
    """Give each user of Kafka its rights, as soon as Kafka answers."""
    from monitor.config.load import load_config  # noqa: PLC0415  # it takes a second, and `read` runs often
    from monitor.operate.servers.rights import list_rights  # noqa: PLC0415  # as above

    users = list_rights(load_config(CONFIG_FILE, {}), CONFIG["kafka"]["username"])
    entries = [entry for user, rights in users.items() for right in rights for entry in right.make_entries(user)]
    while True:
        with suppress(KafkaError), closing(KafkaAdminClient(**log_in("operator"))) as admin:
            admin.create_acls(entries)
            return
        time.sleep(SECONDS)


def send(place: str) -> None:
    """Give the users their rights, then send visits of random people to a place, until the pod ends."""
    grant()
    with closing(KafkaProducer(**log_in("sender"), acks="all", max_block_ms=3_600_000)) as producer:
        send_visits(producer, CONFIG["kafka"]["topics"]["visits"], place, threading.Event())


def read() -> None:
    """Print the status by tick and place, as the output topic has it."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "group_id": None}
    with closing(KafkaConsumer(**log_in("subscriber"), **settings)) as consumer:
        print(json.dumps(read_answers(consumer, CONFIG["kafka"]["topics"]["alerts"])))


def change_password(user: str, password: str) -> None:
    """Give a user of Kafka another password."""
    with closing(KafkaAdminClient(**log_in("operator"))) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, password)])


def run_at_store(*words: str) -> None:
    """Run a command at the store and print its answer."""
    password = (PASSWORDS / "operator").read_text(encoding="utf-8")
    login = {"username": "operator", "password": password, "ssl_ca_certs": CA}
    with closing(redis.Redis.from_url(CONFIG["redis"]["url"], **login)) as store:
        print(store.execute_command(*words))  # type: ignore[no-untyped-call]


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "send": send,
    "read": read,
    "change-password": change_password,
    "store": run_at_store,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
