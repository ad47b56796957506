"""`location-monitor servers` as a separate process, on real servers."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis

from monitor.config.load import load_config
from monitor.kafka.connections import KafkaConnections

pytestmark = pytest.mark.servers

EXAMPLES = Path(__file__).parents[3] / "config"


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_run_until_a_signal(number: signal.Signals) -> None:
    """The printed variables configure running servers; a signal ends them, with exit code 0."""
    argv = [sys.executable, "-m", "monitor.cli", "servers"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            variables = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
            config = load_config(EXAMPLES / "city.yaml", variables)
            kafka, store = config.kafka.bootstrap_servers, config.redis.url.get_secret_value()
            with closing(KafkaConnections(kafka).create_admin()) as admin:
                assert admin.list_topics() == []
            with closing(redis.Redis.from_url(store)) as client:
                assert client.dbsize() == 0
            process.send_signal(number)
            _out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert f"{number.name}: finishing the work in progress" in errors
    assert not is_open(kafka[0])
    assert not is_open(re.sub(r"redis://|/0", "", store))
