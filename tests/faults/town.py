"""A town on real servers with the real clock and slots of two seconds: configuration, topics, traffic, instances.

- `edges` watches six places with an ε at which a draw is above zero with a probability below 10^-17. A place is then
  safe exactly if fewer than T people were there, so that a lost visit is visible. W = 6, F = 1: a pause lasts 7 ticks.
- `murmur` watches two places with so little ε that draws vary, so that a second draw is visible.
- `moments` evaluates all places every four seconds, and `crowds` the three fullest places then. About half of the
  people consent to the lower bounds of `moments`, whose ε is so large that they equal the people who consented.
- `curve` publishes upper bounds of two places, also with draws of zero: buckets of two slots, two in a window.
- `late` watches five places with T = 1. A person is reported there now and then, after the end of the slot and before
  the release of its tick: that tick is safe, and the next one is not.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from monitor.audit.configuration import read_terms
from monitor.client.topic_consumer import read_topic_id
from monitor.records.signed_notes import create_signing_key
from monitor.store.fingerprint import compute_fingerprint
from monitor.store.redis_client import create_client
from monitor.store.redis_store import RedisStore
from monitor.time.instants import MINUTE, SECOND, format_instant
from tests.faults.recount import Recount
from tests.faults.subscriber import Subscriber
from tests.faults.traffic import Traffic
from tests.kit.processes import CLI, Instance
from tests.kit.programs import warm_up
from tests.kit.town import TWO_SECONDS, Town, build_tree, over_time

ARMED: Final = str(Path(__file__).with_name("armed.py"))
SLOT: Final = 2 * SECOND
LATE: Final = tuple(f"late-{n}" for n in range(5))
PLACES: Final = (*(f"edge-{n}" for n in range(6)), "murmur-0", "murmur-1", "yard-0", "yard-1", *LATE, "void")
TIMES_EVERY: Final = 4 * SECOND
MINUTES: Final = 30
KEY_NAME: Final = "example.org/town"
SIGNED: Final = {"signing": {"key_file": "signing.key"}}
"""A change of the configuration with which the answers are signed."""


@dataclass(frozen=True)
class Shape:
    """The layout of a town's topics and servers, and changes of the usual configuration."""

    inputs: int = 3
    ledger_partitions: int = 2
    shards: int = 4
    replication: int | None = None
    cluster: bool = False
    changes: dict[str, Any] = field(default_factory=dict)


def make_monitors(now: int) -> list[dict[str, Any]]:
    """Return the monitors of a town, with designated times from `now` on."""
    times = [format_instant(at) for at in range(now, now + MINUTES * MINUTE, TIMES_EVERY)]
    edges = [place for place in PLACES if place.startswith(("edge", "void"))]
    return [
        over_time("edges", edges, 4, "12s"),
        over_time("murmur", ["murmur-0", "murmur-1"], 5, "8s", epsilon=1) | {"answers_per_window": 2},
        over_time("late", LATE, 1, "4s", epsilon=32),
        {
            "name": "curve",
            "kind": "upper_bound",
            "locations": ["yard-0", "yard-1"],
            "epsilon": "160",
            "bucket": "4s",
            "window": "8s",
        },
        {
            "name": "moments",
            "kind": "at_times",
            "at": times,
            "reporting_horizon": "6s",
            "epsilon": "40",
            "threshold": 2,
            "at_least": {"epsilon": "40"},
        },
        {"name": "crowds", "kind": "hot_spots", "at": times, "reporting_horizon": "10s", "epsilon": "40", "top": 3},
    ]


def configuration(name: str, kafka: str, redis: str, shape: Shape) -> dict[str, Any]:
    """Return the configuration of a town, with designated times from about now on."""
    now = time.time_ns() // 1_000 // (TIMES_EVERY) * TIMES_EVERY
    clock = TWO_SECONDS["clock"] | {"release_delay": "1300ms"}
    sections = TWO_SECONDS | {"clock": clock, "privacy": {"epsilon": "100000", "period": "30s"}}
    partitions = {"inputs": shape.inputs, "ledger_partitions": shape.ledger_partitions, "shards": shape.shards}
    tree = build_tree(name, kafka, redis, make_monitors(now), **partitions, **sections)
    tree["kafka"] |= {"replication_factor": shape.replication} if shape.replication else {}
    tree["redis"] |= {"cluster": True} if shape.cluster else {}
    return tree | shape.changes


class FaultTown(Town):
    """A town with traffic and a subscriber, whose instances may be armed."""

    def __init__(self, folder: Path, name: str, servers: tuple[str, str], shape: Shape, seed: int) -> None:
        super().__init__(folder, configuration(name, *servers, shape), PLACES)
        self.shape, self.seed = shape, seed
        (folder / "signing.key").write_text(create_signing_key(KEY_NAME))
        self._state_epsilon()
        self.topics = self.settings.config.kafka.topics
        self.subscriber = Subscriber(self)
        usual = tuple(place for place in PLACES[:-1] if place not in LATE)
        self.traffic = Traffic(self.settings.kafka, self.topics.visits, usual, seed, LATE, SLOT)

    def begin(self) -> None:
        """Create the topics, and begin to send visits and to read answers. No instance runs yet."""
        # The service's first start skips records that are too old to count, so it must soon follow the first visits.
        warm_up()
        self.create()
        self.subscriber.start()
        self.traffic.start()

    def _state_epsilon(self) -> None:
        """State exactly the most that a person may pay, so that the audit finds any excess."""
        self.tree["privacy"]["epsilon"] = "100000"
        self.tree["privacy"]["epsilon"] = str(self.apply().worst)
        self.apply()

    def change(self, name: str, tree: dict[str, Any]) -> FaultTown:
        """Return the town under another configuration. All instances are those of the town."""
        view = copy.copy(self)
        view.config, view.tree = self.folder / f"{name}.yaml", tree
        view._state_epsilon()  # noqa: SLF001  # of this class
        return view

    def start(self, *arguments: str, config: Path | None = None) -> Instance:
        """Start an instance with arguments of armed.py."""
        return self.launch(ARMED, "--config", str(config or self.config), *arguments)

    def start_command(self, config: Path, *words: str) -> Instance:
        """Start a command of operators, such as `page`, with a configuration file or a folder of such files."""
        return self.launch(CLI, *words, "--config", str(config))

    def recount(self) -> Recount:
        """Return the recount of the input under this configuration."""
        return Recount(read_terms(self.config), self.traffic.sent)

    def now(self) -> int:
        """Return the current slot."""
        return self.settings.parameters.grid.find_slot(time.time_ns() // 1_000)

    def read_fingerprint(self) -> str:
        """Return the fingerprint of this configuration's facts. The published one leaves out the person key."""
        with self.admin() as admin:
            topic_id = read_topic_id(admin, self.topics.visits)
        return compute_fingerprint(self.settings.parameters, self.settings.hasher.key_digest, topic_id)

    def open_store(self) -> RedisStore:
        """Return the store of this configuration's facts."""
        return RedisStore(self.settings.parameters, self.read_fingerprint(), create_client(self.settings.redis))

    def is_read(self, store: RedisStore) -> bool:
        """Return whether the progress of all shards has reached the end of the input."""
        ends = self.ends(self.topics.visits)
        return all(shard.get(place, -1) >= end for shard in store.read_progress() for place, end in ends.items())

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """Open an admin client."""
        with closing(self.settings.kafka.create_admin()) as client:
            yield client

    def end(self) -> None:
        """End all processes, the traffic and the subscriber."""
        super().end()
        if self.traffic.flows:
            self.traffic.stop()
        self.subscriber.stop()
