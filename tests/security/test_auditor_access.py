"""The auditor over TLS with a user of few rights: it needs the documented rights alone, and names a missing one."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from monitor.kafka.connections import KafkaConnections
from tests.security.conftest import name_auditor_without
from tests.security.connecting import by_password, redis_by_password, shows_no_secret
from tests.security.rights import AUDITOR, AUDITOR_RIGHTS, Right, list_topics

pytestmark = pytest.mark.long

READY = "everything that was published has been judged"
LACKS = (
    r"the topic {0} cannot be read: Kafka at \S+ cannot be used: its user lacks the permission Read on a topic \(.*{0}"
)


@pytest.fixture
def start_auditor(
    guarded_city: Any,
    guarded_redis: Any,
    certificates: Any,
    configure: Callable[..., Path],
    start_command: Callable[..., Any],
    tmp_path: Path,
) -> Callable[..., Any]:
    """A function that starts the auditor of the city as a user, whom its environment names."""

    def start(user: str, *options: str) -> Any:
        folder = tmp_path / user
        kafka = by_password(certificates, folder, guarded_city.kafka, sasl_mechanism="PLAIN")
        config = configure(folder, kafka, redis_by_password(certificates, folder, guarded_redis))
        words = ("audit", "--follow", "--config", str(config), "--metrics-port", "0", *options)
        return start_command(*words, environ={"LOCATION_MONITOR__KAFKA__USERNAME": user})

    return start


@pytest.fixture(scope="module")
def visited(guarded_city: Any) -> None:
    """The city with a record in the input."""
    with closing(KafkaConnections((guarded_city.kafka.bootstrap_servers,)).create_producer()) as producer:
        producer.send("visits", value=b"no visit").get(timeout=10)


@pytest.mark.usefixtures("visited")
@pytest.mark.promise(38)
@pytest.mark.parametrize("options", [(), ("--output-only",)], ids=["with input", "output only"])
def test_auditor_judges_with_documented_rights(
    options: tuple[str, ...], start_auditor: Callable[..., Any], eventually: Callable[..., Any], secrets: Any
) -> None:
    """The documented rights are enough. With --output-only the right to the input is not needed."""
    (to_input,) = (right for right in AUDITOR_RIGHTS if right.name == "input")
    run = start_auditor(name_auditor_without(to_input) if options else AUDITOR, *options)
    eventually(lambda: READY in run.text and run.fetch("/readyz")[0] == 200, deadline_seconds=60)
    assert "cannot be read" not in run.text
    assert " ERROR " not in run.text
    assert shows_no_secret(run, secrets)
    run.terminate()


@pytest.mark.usefixtures("visited")
@pytest.mark.promise(38)
@pytest.mark.parametrize("right", AUDITOR_RIGHTS, ids=str)
def test_missing_right_is_named(
    right: Right, start_auditor: Callable[..., Any], eventually: Callable[..., Any], secrets: Any
) -> None:
    """Without one of the rights, the log and /readyz name the topic, and the auditor keeps trying."""
    run, message = start_auditor(name_auditor_without(right)), LACKS.format(list_topics("city")[right.name])
    eventually(
        lambda: re.search(message, run.text) and re.search(message, run.fetch("/readyz")[1]), deadline_seconds=60
    )
    assert run.fetch("/readyz")[0] == 503
    assert run.code is None
    assert "Traceback" not in run.text
    assert shows_no_secret(run, secrets)
    run.terminate()


def test_page_states_read_alone() -> None:
    """The auditor needs Read on two topics, and can therefore write nothing."""
    assert [str(right) for right in AUDITOR_RIGHTS] == ["topic input: Read", "topic output: Read"]
