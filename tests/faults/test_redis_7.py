"""`make soak`: all that befalls Redis, once more with Debian's Redis 7 in place of the Valkey that comes as a wheel."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from monitor.tools.embedded import EmbeddedValkey, valkey
from tests.faults import test_redis, test_redis_many

for _module in (test_redis, test_redis_many):  # their tests and fixtures, in the order in which they stand there
    globals().update({name: thing for name, thing in vars(_module).items() if not name.startswith("_")})

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", autouse=True)
def redis_7(redis_server: EmbeddedValkey) -> Iterator[None]:
    """Who starts a store without saying which gets Debian's; where there is none, these tests are skipped loudly."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(valkey, "_find_wheel_binary", lambda: Path(str(shutil.which("redis-server"))))
        yield


def test_these_stores_are_redis_7() -> None:
    with EmbeddedValkey() as server, closing(redis.Redis.from_url(server.url)) as client:
        told: Any = client.info("server")
    assert told["redis_version"].startswith("7.")
    assert "valkey_version" not in told
