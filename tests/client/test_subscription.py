"""A subscriber in a few lines, on a real Kafka: what is known now, what changes, what was known, and resuming."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from monitor.client import Known, Places, connect, subscribe
from monitor.client.subscription import open_places
from monitor.client.verification import Trust
from monitor.errors import TimeError, TokenError, UnreachableError
from monitor.kinds.locations import find_shard
from monitor.ledger.sign_ticks import SignedLog
from monitor.records.output_records import OutputRecord
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, HOUR, MINUTE, to_datetime
from monitor.time.slot_grid import SlotGrid
from tests.client.conftest import Publish
from tests.client.records import REGISTRY, SLOTS, over_time, snapshot
from tests.conftest import Eventually
from tests.kit.signed import SIGNER
from tests.kit.topics import recreate_topic

DOCS = Path(__file__).parents[2] / "docs"

OpenPlaces = Callable[..., Places]
"""The type of the fixture `open_at`. The arguments `resume` and `trust` are optional."""


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that stands a minute after the as_of of tick 8."""
    return SteppedClock(SLOTS.as_of(8) + MINUTE)


@pytest.fixture
def open_at(settings: Settings, clock: SteppedClock) -> Iterator[OpenPlaces]:
    """A function that opens places on the topic, at the clock's time. They are closed at the end."""
    opened: list[Places] = []

    def open_one(resume: str | None = None, trust: Trust | None = None) -> Places:
        topic = settings.config.kafka.topics.alerts
        opened.append(open_places(settings.kafka, topic, REGISTRY, HOUR, clock, resume=resume, trust=trust))
        return opened[-1]

    yield open_one
    for places in opened:
        places.close()


def states(places: Places, number: int) -> dict[str, str]:
    """Return the state of each of the next places that change."""
    return {place: known.state for place, known in islice(places, number)}


def read_blocks(page: Path) -> list[str]:
    """Return the Python code of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_block(code: str, config: Path) -> list[tuple[object, ...]]:
    """Run documented lines until they have printed something, and return that."""
    printed: list[tuple[object, ...]] = []

    class Enough(Exception):  # noqa: N818  # it is no error
        pass

    def print_once(*values: object) -> None:
        printed.append(values)
        raise Enough

    with pytest.raises(Enough):
        exec(code.replace("city.yaml", str(config)), {"print": print_once})  # noqa: S102  # the documented lines
    return printed


def test_documented_lines_work(configured: Path, publish: Publish) -> None:
    """The Python code for subscribers prints what is known, with the service's configuration file."""
    loop, question, *_others = read_blocks(DOCS / "subscribers.md")
    assert len([line for line in loop.splitlines() if line]) <= 5
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    grid = SlotGrid(int(now.timestamp()) * 1_000_000 - 8 * HOUR, HOUR)
    publish([over_time("station-central", 7, 0, grid=grid)])
    assert run_block(loop, configured) == [("station-central", "safe", 9, now + timedelta(hours=2))]
    assert run_block(question, configured) == [("open",)]


def test_updates_are_changes(publish: Publish, open_at: OpenPlaces, clock: SteppedClock) -> None:
    """First come all places that are known, then those that change, also because their answers expire."""
    publish(over_time(place, tick, 0) for tick in (6, 7, 8) for place in ("market", "clinic"))
    places = open_at()
    updates = iter(places)
    assert {place: known.state for place, known in islice(updates, 2)} == {"market": "safe", "clinic": "safe"}
    publish([over_time("clinic", 9, 0), over_time("market", 9, 12)])
    clock.move_to(SLOTS.as_of(9) + MINUTE)
    place, known = next(updates)
    assert (place, known.state, known.count_at_most) == ("market", "noisy_count", 12)
    clock.move_to(SLOTS.as_of(12))
    assert {place: known.reason for place, known in islice(updates, 2)} == {"market": "too_old", "clinic": "too_old"}
    assert known.state == "unknown"


def open_signed_log(open_at: OpenPlaces) -> tuple[str, Callable[..., list[OutputRecord]]]:
    """Return the topic's id, and a function that returns the answers and the checkpoint of a tick, given two counts."""
    with open_at() as unsigned:
        topic_id = json.loads(base64.urlsafe_b64decode(unsigned.token + "=="))["topic_id"]
    log = SignedLog(SIGNER, "town", topic_id, 0)

    def sign(tick: int, market: int = 0, clinic: int = 0) -> list[OutputRecord]:
        answers = [over_time("market", tick, market), over_time("clinic", tick, clinic)]
        return [*answers, log.sign(tick, SLOTS.as_of(tick), answers)]

    return topic_id, sign


def test_altered_answer_turns_all_unknown(publish: Publish, open_at: OpenPlaces, clock: SteppedClock) -> None:
    """
    With the public key, only signed answers are believed, and after an altered one every place is unknown.

        tick    5 c   6 c   7 c   8 c     9 c
                |     shown               one answer altered
    """
    publish([])
    topic_id, sign = open_signed_log(open_at)
    publish(record for tick in (5, 6, 7, 8) for record in sign(tick))
    places = open_at(trust=Trust(SIGNER.verifier))
    assert states(places, 2) == {"market": "safe", "clinic": "safe"}
    assert places.at(to_datetime(SLOTS.as_of(7))).get("market").state == "safe"
    origin, *_tree, tick = places.checkpoints[0].splitlines()[:4]
    assert (origin, tick.split()[:2]) == (f"example.org/town/{topic_id}/0/5", ["tick", "8"])
    _market, clinic, checkpoint = sign(9)
    publish([over_time("market", 9, 12), clinic, checkpoint])
    clock.move_to(SLOTS.as_of(9) + MINUTE)
    assert set(states(places, len(REGISTRY.ids)).values()) == {"unknown"}
    assert {places.get(place).reason for place in REGISTRY.ids} == {"not_verified"}
    assert "the answers of tick 9 are not those that were signed" in places.view.problem


@pytest.mark.promise(45)
def test_token_within_a_signed_tick(publish: Publish, open_at: OpenPlaces, clock: SteppedClock) -> None:
    """An answer that waited for its checkpoint when a token was taken is a change for whoever resumes."""
    publish([])
    _topic_id, sign = open_signed_log(open_at)
    publish(record for tick in (6, 7, 8) for record in sign(tick))
    market, *rest = sign(9, market=12)
    publish([market])
    clock.move_to(SLOTS.as_of(9) + MINUTE)
    with open_at(trust=Trust(SIGNER.verifier)) as places:
        assert states(places, 2) == {"market": "safe", "clinic": "safe"}
        token = places.token
    publish(rest)
    with open_at(resume=token, trust=Trust(SIGNER.verifier)) as resumed:
        assert [(place, known.state) for place, known in resumed.updates()] == [("market", "noisy_count")]


def test_clock_that_catches_up(publish: Publish, open_at: OpenPlaces, clock: SteppedClock) -> None:
    """An answer ahead of the clock becomes known a slot before its as_of without a record, also behind a pause."""
    publish([over_time("school", 7, 12, (6, 12))])
    publish([over_time("market", 10, 0), snapshot(find_shard("school", 2), 10, {"school": (10, 9)})])
    clock.move_to(SLOTS.as_of(9) - 1)
    places = open_at()
    reasons = {place: known.reason for place, known in places.updates()}
    assert reasons | {"market": "clock_behind", "school": "budget_spent"} == reasons
    assert places.wait() == []
    clock.move_to(SLOTS.as_of(9))
    states = {place: known.state for place, known in places.wait()}
    assert states | {"market": "safe", "school": "noisy_count"} == states


def test_known_expires_by_itself(publish: Publish, open_at: OpenPlaces, clock: SteppedClock) -> None:
    """What is known becomes unknown after valid_until, without a call, also after `close`."""
    publish([over_time("market", 8, 0)])
    places = open_at()
    known = places.get("market")
    places.close()
    assert (known.state, known.valid_until) == ("safe", to_datetime(SLOTS.as_of(10)))
    clock.move_to(SLOTS.as_of(10) + 1)
    assert (known.state, known.count_at_most) == ("unknown", None)
    assert "state='unknown'" in repr(known)
    assert places.get("\ud800").reason == "nothing_published"
    with pytest.raises(AttributeError):
        known.state = "safe"  # type: ignore[misc]  # it is frozen


def test_async_loop_and_callback(publish: Publish, open_at: OpenPlaces) -> None:
    """`async for` and `listen` give the same as the loop, and end with `close`."""
    publish([over_time("market", 8, 0), over_time("park", 8, None)])
    expected = {"market": "safe", "park": "unknown"}

    async def collect(places: Places) -> dict[str, str]:
        found: dict[str, str] = {}
        async for place, known in places:
            found[place] = known.state
            if len(found) == len(expected):
                await asyncio.to_thread(places.close)
        return found

    assert asyncio.run(collect(open_at())) == expected
    heard: dict[str, Known] = {}
    places = open_at()
    listener = threading.Thread(target=places.listen, args=(heard.__setitem__,))
    listener.start()
    while listener.is_alive() and len(heard) < len(expected):
        listener.join(0.01)
    places.close()
    listener.join(10)
    assert not listener.is_alive()
    assert {place: known.state for place, known in heard.items()} == expected


def test_earlier_knowledge_is_read(publish: Publish, open_at: OpenPlaces) -> None:
    """`at` returns what was known at a time, and the position in the topic stays."""
    publish(
        [over_time("market", 5, 0), over_time("market", 6, 12), snapshot(0, 6), over_time("market", 8, 12, (6, 12))]
    )
    places = open_at()
    token = places.token
    then = places.at(to_datetime(SLOTS.as_of(5) + 30 * MINUTE))
    assert (then.get("market").state, then.get("park").state) == ("safe", "unknown")
    then = places.at(to_datetime(SLOTS.as_of(7)))
    assert (then.get("market").state, then.get("park").state) == ("noisy_count", "safe")
    assert places.at(to_datetime(SLOTS.as_of(0))).get("market").reason == "nothing_published"
    assert (places.get("market").state, places.token) == ("paused", token)
    with pytest.raises(TimeError):
        places.at(datetime(2026, 1, 5))  # noqa: DTZ001  # without an offset


def test_token_resumes(publish: Publish, open_at: OpenPlaces, clock: SteppedClock) -> None:
    """With a token, the first updates are the changes since the token was taken."""
    publish([over_time("market", 8, 0), over_time("clinic", 8, 0), over_time("park", 8, 0)])
    with open_at() as places:
        assert len(states(places, 3)) == 3
        token = places.token
    publish([over_time("market", 9, 12), over_time("clinic", 9, 0)])
    publish([over_time("market", 10, 12, (9, 12)), over_time("clinic", 10, 0)])
    clock.move_to(SLOTS.as_of(10) + MINUTE)
    with open_at(resume=token) as resumed:
        assert states(resumed, 2) == {"market": "paused", "park": "unknown"}
        assert resumed.updates() == []
        assert resumed.get("clinic").state == "safe"
        assert resumed.token != token


@pytest.mark.parametrize("token", ["", "x", "e30", "eyJ0b3BpYyI6Im8iLCJvZmZzZXRzIjp7fSwidGFrZW4iOjB9"])
def test_other_tokens_are_refused(token: str, publish: Publish, open_at: OpenPlaces) -> None:
    """A text that is no token, and the token of another topic, are refused."""
    with pytest.raises(TokenError, match="Start without a token"):
        open_at(resume=token)


def test_topic_without_id_is_refused(publish: Publish, open_at: OpenPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Kafka does not know the topic yet, or no longer, nothing is read: a token would contain no id."""
    publish([])
    describe = KafkaAdminClient.describe_topics

    def describe_others(client: KafkaAdminClient, topics: list[str]) -> object:
        return describe(client, [f"{topic}-missing" for topic in topics])

    monkeypatch.setattr(KafkaAdminClient, "describe_topics", describe_others)
    with pytest.raises(UnreachableError, match="yet, or no longer"):
        open_at()


def test_token_of_replaced_topic_is_refused(
    settings: Settings, publish: Publish, open_at: OpenPlaces, eventually: Eventually
) -> None:
    """The offsets of a token are not used in a topic that was deleted and created again with the same name."""
    publish([over_time("market", 8, 0)])
    token = open_at().token
    topic = settings.config.kafka.topics.alerts
    recreate_topic(settings.kafka, topic)
    with pytest.raises(TokenError, match="re-created since the token was taken"):
        open_at(resume=token)


def test_aborted_records_are_invisible(settings: Settings, publish: Publish, open_at: OpenPlaces) -> None:
    """Records of an aborted transaction are not read, those after it are, and no consumer group appears."""
    topic = settings.config.kafka.topics.alerts
    publish([over_time("market", 8, 0)])
    with closing(settings.kafka.create_producer(transactional_id=f"{topic}-writer")) as producer:
        producer.init_transactions()
        for (key, value, headers, timestamp), end in (
            (over_time("clinic", 8, 0), producer.abort_transaction),
            (over_time("park", 8, 0), producer.commit_transaction),
        ):
            producer.begin_transaction()
            sent = producer.send(topic, key=key, value=value, headers=list(headers), timestamp_ms=timestamp)
            sent.get(10)  # an abort drops what was not sent yet
            end()
    with closing(settings.kafka.create_admin()) as admin:
        groups = {group["group_id"] for group in admin.list_groups()}
        places = open_at()
        assert states(places, 2) == {"market": "safe", "park": "safe"}
        assert places.get("clinic").reason == "nothing_published"
        assert {group["group_id"] for group in admin.list_groups()} == groups


def test_connect_needs_no_configuration(settings: Settings, publish: Publish, tmp_path: Path) -> None:
    """`connect` needs only servers, the topic, the length of a slot and the registry. It keeps places for 24 slots."""
    publish([over_time("market", 8, 0)])
    registry = tmp_path / "locations.csv"
    registry.write_text("location_id\nmarket\n")
    servers, topic = settings.config.kafka.bootstrap_servers, settings.config.kafka.topics.alerts
    with connect(servers, topic, slot="2h", registry=registry) as places:
        assert places.get("market").reason == "too_old"
        assert places.view.keep == 2 * DAY


def test_subscribe_checks_the_token(configured: Path, publish: Publish) -> None:
    """`subscribe` refuses a text that is no token, and closes its connection."""
    with pytest.raises(TokenError):
        subscribe(configured, resume="x")
