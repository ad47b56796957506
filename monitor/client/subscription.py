"""A subscriber: follows the output topic, and returns what is known about each place at any moment."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from monitor.client.answer_types import NOTHING, Answer, Known
from monitor.client.known_at_a_moment import VALID_SLOTS, KnownPlaces
from monitor.client.read_config import PublishingService, read_service
from monitor.client.state_from_records import Change, SubscriberView, keep_for
from monitor.client.topic_consumer import BACK_TICKS, Published, Subscriber, Token, decode_token
from monitor.client.verification import Trust, Verification, read_trust
from monitor.config.describe_problems import format_value
from monitor.config.registry import load_registry
from monitor.errors import TimeError, UsageError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.base.record_of_designated_times import FINAL_FOR
from monitor.kinds.locations import Registry
from monitor.time.clock import Clock, SystemClock
from monitor.time.instants import MILLISECOND, SECOND, parse_duration, parse_instant, to_instant


class SteadyTime:
    """The time of a clock or, if that is later, the last time returned plus the time elapsed since then.

    Without this, an answer would be valid for longer after the clock is set back. Thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last, self._elapsed = clock.now(), clock.elapsed()

    def now(self) -> int:
        """Return the present instant, in microseconds since the epoch."""
        with self._lock:
            elapsed = self._clock.elapsed()
            onward = self._last + int((elapsed - self._elapsed) * SECOND)
            self._last, self._elapsed = max(self._clock.now(), onward), elapsed
            return self._last


class Update(NamedTuple):
    """A place, and what is known about it now."""

    place: str
    known: Known


class Places:
    """What is known about each place, from the output topic. A context manager; `get` may be called by any thread.

    It reads all partitions with the isolation level read_committed, without a consumer group, and commits nothing. The
    constructor reads the records that are still valid.

    Iterating, with `for` or `async for`, yields first each place about which something is known, then each place whose
    state, reason, bounds or last alarm have changed: because of a record, because an answer has expired, or because the
    clock was behind an answer and has caught up. Only one loop at a time may iterate. After `close` the loop ends.

    `now` returns the instant at which answers are read. It never goes back, even if the computer's clock is set back.

    `resume`: a token. The first updates are then the changes since the token was taken. `trust`: the public key of the
    service; only answers that it has signed are believed.

    Raises:
        TokenError: the token is of another topic, or is not a token (constructor only).
        UnreachableError: Kafka does not answer (constructor and iteration).
    """

    def __init__(
        self,
        subscriber: Subscriber,
        registry: Registry,
        slot: int,
        clock: Clock,
        *,
        resume: str | None = None,
        trust: Trust | None = None,
    ) -> None:
        self._subscriber, self._slot, self.now = subscriber, slot, SteadyTime(clock).now
        self._trust = trust
        signer = "" if trust is None else trust.verifier.name
        self.view = SubscriberView(registry, keep=keep_for(slot, FINAL_FOR), signer=signer)
        self._verification = self._begin_verification()
        self._known = KnownPlaces(self.view, slot, self.now, FINAL_FOR)
        self._shown: dict[str, tuple[object, ...]] = {}
        self._unchanged_until: int | None = None  # without a record
        self._state, self._reading = threading.Lock(), threading.Lock()
        self._closed = threading.Event()
        if resume is None:
            self._catch_up()
        else:
            self._resume(decode_token(resume, subscriber.topic, subscriber.topic_id))

    def __enter__(self) -> Self:
        """Return these places. The constructor has already connected."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection, and end the loops that iterate."""
        self._closed.set()
        with self._reading:
            self._subscriber.close()

    def get(self, place: str) -> Known:
        """Return what is known about a place. It never raises, not even for an unknown place or after `close`."""
        with self._state:
            return self._known.get(place)

    def answers(self, place: str) -> list[Known]:
        """Return what each monitor says about a place, including its hot spots, sorted by monitor."""
        with self._state:
            return self._known.answers(place)

    def at(self, time: datetime) -> KnownPlaces:
        """Return what was known at a time, from the records whose as_of is not later. They are read from the topic.

        Answers that the topic no longer retains were known then, but are unknown here.

        Raises:
            TimeError: the time has no offset.
            UnreachableError: Kafka does not answer.
        """
        instant = to_instant(time)
        view = SubscriberView(self.view.registry, keep=self.view.keep)
        first = instant - FINAL_FOR - (VALID_SLOTS + 1) * self._slot
        with self._reading:
            # The timestamp of an answer is the as_of of its tick. Other records have later ones, and may precede it.
            records = self._subscriber.read_between(first // MILLISECOND, (instant + self._slot) // MILLISECOND + 1)
        past = (record for record in records if _read_as_of(record, instant) <= instant)
        _fold(view, past, self._begin_verification())
        return KnownPlaces(view, self._slot, lambda: instant, FINAL_FOR)

    @property
    def checkpoints(self) -> dict[int, str]:
        """The text of the last verified checkpoint of each partition, to compare with what others were shown."""
        with self._state:
            return {} if self._verification is None else self._verification.checkpoints

    @property
    def unverified(self) -> str:
        """Why published answers are not shown: a wrong signature, or no signed tick yet. Empty if all are shown."""
        with self._state:
            return "" if self._verification is None else self._verification.unverified

    @property
    def slot(self) -> int:
        """The length of a slot, in microseconds."""
        return self._slot

    @property
    def token(self) -> str:
        """A token with which another subscriber resumes after the records folded so far."""
        with self._reading, self._state:
            as_of = None if self.view.as_of is None else parse_instant(self.view.as_of)
            offsets = self._subscriber.positions
            topic, topic_id = self._subscriber.topic, self._subscriber.topic_id
            return Token(topic, offsets, self.now(), topic_id, as_of).encode()

    def poll(self) -> list[Change]:
        """Fold the next records, and return their changes. Wait for records for at most a quarter of a second."""
        return self._read()[1]

    def _read(self) -> tuple[bool, list[Change]]:
        """Fold the next records. Return whether there were any, and their changes."""
        with self._reading:
            records = [] if self._closed.is_set() else self._subscriber.poll()
            with self._state:
                return bool(records), _fold(self.view, records, self._verification)

    def updates(self) -> list[Update]:
        """Return the places that have changed since the last call; the first call returns all that are known."""
        with self._state:
            now, changed, ends = self.now(), [], list[int]()
            for place in dict.fromkeys([*self._known.places(), *(self._shown if self.view.problem else ())]):
                known = self._known.get(place)
                if self._note(place, known.at(now)):
                    changed.append(Update(place, known))
                if (end := known.find_end(now)) is not None:
                    ends.append(end)
            self._unchanged_until = min(ends, default=None)
            return changed

    def _note(self, place: str, answer: Answer) -> bool:
        """Note an answer as shown. Return whether it differs from the one shown before."""
        shown = self._shown.get(place, _extract_shown(NOTHING))
        self._shown[place] = _extract_shown(answer)
        return shown != _extract_shown(answer)

    def __iter__(self) -> Iterator[Update]:
        """Yield what is known about each place, and then each change, until `close`."""
        yield from self.updates()
        while not self._closed.is_set():
            yield from self.wait()

    async def __aiter__(self) -> AsyncIterator[Update]:
        """Yield the same as the loop without `async`. Reading happens in a thread."""
        for update in self.updates():
            yield update
        while not self._closed.is_set():
            for update in await asyncio.to_thread(self.wait):
                yield update

    def listen(self, callback: Callable[[str, Known], None]) -> None:
        """Call a function with each place and what is known about it, first and at each change, until `close`."""
        for place, known in self:
            callback(place, known)

    def wait(self) -> list[Update]:
        """Return the places that have changed. Wait for records for at most a quarter of a second."""
        read, _changes = self._read()
        changes = self._unchanged_until is not None and self.now() > self._unchanged_until
        return self.updates() if read or changes else []

    def _catch_up(self) -> None:
        """Read the records that are still valid. Start further back if the latest records are not answers.

        After a problem of the verification, or before `since`, nothing further back helps.
        """
        more = True
        while more and self.view.empty and not self.view.problem:
            more = self._subscriber.begin()
            self._read_from_here()
            if self._trust is not None and self._trust.since is not None:
                more = more and not self._subscriber.reaches(self._trust.since // MILLISECOND)
        if self.view.as_of is not None and not self.view.problem:
            as_of = parse_instant(self.view.as_of) // MILLISECOND
            if not self._subscriber.reaches(as_of):
                self._subscriber.begin(as_of)
                self._read_from_here()

    def _read_from_here(self) -> None:
        """Read the records from the present position to the end. The verification begins again with them."""
        self._verification = self._begin_verification()
        _fold(self.view, self._subscriber.read_to_end(), self._verification)

    def _begin_verification(self) -> Verification | None:
        if self._trust is None:
            return None
        places = len(self.view.registry.ids)
        return Verification(self._trust.verifier, self._subscriber.topic_id, places, self._trust.since)

    def _resume(self, token: Token) -> None:
        """Read the records that were valid when the token was taken, note them as shown, and read the later ones."""
        self._subscriber.begin(None if token.as_of is None else token.as_of // MILLISECOND)
        before: list[Published] = []
        after: list[Published] = []
        for record in self._subscriber.read_up_to(token.offsets):
            (before if record.offset < token.offsets.get(record.partition, 0) else after).append(record)
        _fold(self.view, before, self._verification)  # answers that wait for their checkpoint were not shown yet
        for place in self._known.places():
            self._shown[place] = _extract_shown(self._known.get(place).at(token.taken))
        _fold(self.view, after, self._verification)
        _fold(self.view, self._subscriber.read_to_end(), self._verification)


def subscribe(
    config: str | Path, *, resume: str | None = None, clock: Clock | None = None, since: str | None = None
) -> Places:
    """Subscribe to the answers of a service, given its configuration: its Kafka, topic, registry and slot are used.

    `since` is a time of RFC 3339 (docs/subscribers.md, Signed answers): nothing that was published until then is
    believed, and no wrong signature until then is a problem.

    Raises:
        ConfigError: a section that a subscriber needs, or the registry, is invalid.
        TokenError: `resume` is not a token of this topic.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
        UsageError: `since` is not a time, or the configuration has no public key.
    """
    return open_configured(read_service(Path(config), os.environ), clock, resume=resume, since=since)


def open_configured(
    service: PublishingService, clock: Clock | None, *, resume: str | None = None, since: str | None = None
) -> Places:
    """Subscribe with a configuration that is read already. Raise the errors of `subscribe`."""
    return open_places(
        service.connections,
        service.topic,
        Registry(service.locations, 1),
        service.slot,
        clock,
        resume=resume,
        timed=service.timed,
        trust=read_trust(service.public_key, since),
    )


def connect(
    servers: Sequence[str],
    topic: str,
    *,
    slot: str,
    registry: str | Path,
    resume: str | None = None,
    public_key: str | None = None,
    since: str | None = None,
) -> Places:
    """Subscribe without the service's configuration, to a Kafka that needs no credentials.

    `slot` is the length of a slot, such as "1h". `registry` is the service's public list of locations. `public_key` is
    the key with which the service signs its answers, if it does. `since` is as in `subscribe`, and needs `public_key`.

    Raises:
        ConfigError: the registry is invalid.
        DurationError: `slot` is not a duration.
        UsageError: `public_key` is not a public key, or `since` is not a time.
        TokenError, TopicError, UnreachableError: as in `subscribe`.
    """
    ids = load_registry(Path(registry)).ids
    connections, length = KafkaConnections(tuple(servers)), parse_duration(slot)
    try:
        trust = read_trust(public_key, since)
    except ValueError:
        raise UsageError(
            f"public_key is {format_value('public_key', public_key)}: expected a line such as "
            "example.org/safety+0123abcd+AR…, as the service publishes it"
        ) from None
    return open_places(connections, topic, Registry(ids, 1), length, None, resume=resume, trust=trust)


def open_places(
    connections: KafkaConnections,
    topic: str,
    registry: Registry,
    slot: int,
    clock: Clock | None,
    *,
    resume: str | None = None,
    timed: bool = True,
    trust: Trust | None = None,
) -> Places:
    """Subscribe with existing connection settings. `slot` is in microseconds.

    `timed`: whether there may be designated times. Their last answers are valid for a day, so a day's records are read.
    `trust`: the public key of the service. The first tick that is read is not shown, so one more is read.

    Raise the errors of `subscribe` except ConfigError.
    """
    back = max(BACK_TICKS * slot, FINAL_FOR + VALID_SLOTS * slot if timed else 0)
    back += slot if trust is None else 2 * slot
    subscriber = Subscriber(connections, topic, slot // MILLISECOND, back // MILLISECOND)
    try:
        return Places(subscriber, registry, slot, clock or SystemClock(), resume=resume, trust=trust)
    except BaseException:
        subscriber.close()
        raise


def _fold(view: SubscriberView, records: Iterable[Published], verification: Verification | None = None) -> list[Change]:
    """Add records to a view, and return the changes. With a verification, add only those that are signed."""
    if verification is not None:
        records = verification.check(records)
        if verification.problem and not view.problem:
            view.distrust(verification.problem)
    changes = (view.add(record.headers, record.value) for record in records)
    return [change for change in changes if change is not None]


def _extract_shown(answer: Answer) -> tuple[object, ...]:
    alarm = answer.last_alarm and (answer.last_alarm.as_of, answer.last_alarm.count_at_most)
    return answer.state, answer.reason, answer.count_at_most, answer.count_at_least, alarm


def _read_as_of(record: Published, default: int) -> int:
    with suppress(TimeError):
        return parse_instant((dict(record.headers).get("ce_time") or b"").decode(errors="replace"))
    return default
