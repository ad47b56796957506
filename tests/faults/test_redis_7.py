"""`make soak`: the fault tests of Redis, with Debian's Redis 7 instead of the Valkey from the wheel."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from monitor.tools.servers import EmbeddedValkey, valkey
from tests.faults import test_redis, test_redis_many

for _module in (test_redis, test_redis_many):  # import their tests and fixtures, in their order
    globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", autouse=True)
def redis_7(redis_server: EmbeddedValkey) -> Iterator[None]:
    """Start Debian's Redis wherever a test starts a store. The tests are skipped if it is not installed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(valkey, "_find_wheel_binary", lambda: Path(str(shutil.which("redis-server"))))
        yield


def test_these_stores_are_redis_7() -> None:
    """The stores of these tests are Redis 7, and not Valkey."""
    with EmbeddedValkey() as server, closing(redis.Redis.from_url(server.url)) as client:
        info: Any = client.info("server")
    assert info["redis_version"].startswith("7.")
    assert "valkey_version" not in info
