"""Owner records: what they carry from one owner of a ledger partition to the next, and how a takeover writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from monitor.contracts import alerts
from monitor.contracts.charges import Charges
from monitor.errors import LedgerError
from monitor.failpoints import failpoint
from monitor.public.parameters import Parameters
from monitor.release.ledger import LedgerRecord, Writer
from monitor.release.state import OwnerTerms, later


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where the ledger is: topic, its id, and the id of the input topic that the facts are read from.

    `fingerprint`: what is published of it (`published_fingerprint`). `input_seen_at`: an instant at which that input topic
    was there, by a clock that agreed with the servers' then. What another topic held was produced before: an owner's
    own clock may have been set back by the time it takes over. `input_partitions`: how many the input had then.
    """

    topic: str
    topic_id: str
    input_topic_id: str
    fingerprint: str
    input_seen_at: int
    input_partitions: int = 0


@dataclass(frozen=True, slots=True)
class OwnerRecords:
    """Makes owner records. `now` tells the present instant by a clock that is not ahead: records expire by it."""

    place: LedgerPlace
    parameters: Parameters
    charges: Charges | None
    now: Callable[[], int]

    def terms(self, known: OwnerTerms | None, partition: int) -> OwnerTerms:
        """What the owner's record must carry, given what the partition says.

        Raises:
            LedgerError: it has not begun, or is another service's.
        """
        place = self.place
        if known is None:
            raise LedgerError(
                f"partition {partition} of {place.topic} has no first record, so what was spent is not known: run "
                "`location-monitor topics --create`"
            )
        known.require_service(self.parameters.name, place.topic)
        same = known.input_topic_id == place.input_topic_id
        return replace(
            known,
            input_topic_id=place.input_topic_id,
            input_since=self._input_since(known),
            fingerprint=place.fingerprint,
            input_partitions=max(known.input_partitions if same else 0, place.input_partitions),
            charges=self.charges,
        )

    def _input_since(self, known: OwnerTerms) -> int | None:
        since, tolerance = known.input_since, self.parameters.tolerance
        if known.input_topic_id not in ("", self.place.input_topic_id):
            since = later(since, self._whole_after(self.place.input_seen_at + tolerance))
        if known.fingerprint == "" and known.lost_at is not None:
            # The ledger that was lost said which input it was: this one may be another.
            since = later(since, self._whole_after(known.lost_at + tolerance))
        return since

    def _whole_after(self, instant: int) -> int:
        """The slot from which facts are whole if what was produced up to an instant is lost, planned stays included."""
        return self.parameters.grid.slot_of(instant) + self.parameters.max_lead + 1

    def record(self, terms: OwnerTerms, partition: int, tick: int | None = None) -> LedgerRecord:
        """An owner record; `tick`: that it was decided, and had nothing to answer."""
        now = self.now()
        key, value, headers = alerts.owner_record(
            source=self.parameters.name,
            service=terms.service,
            fingerprint=terms.fingerprint,
            input_topic_id=terms.input_topic_id,
            partitions=terms.partitions,
            lost_at=terms.lost_at,
            input_since=terms.input_since,
            partition=partition,
            at=now,
            tick=tick,
            input_partitions=terms.input_partitions,
            charges=terms.charges,
        )
        return LedgerRecord(key, value, tuple(headers), now // 1_000)

    def announce(
        self, writer: Writer, partition: int, known: OwnerTerms | None, read: Callable[[int], OwnerTerms | None]
    ) -> OwnerTerms:
        """Append an owner record and read up to it; what it carries, given all that precedes it.

        Reading up to one's own record is reading to the end: a leader that lags can't cut it short. What the record
        carries was read before; should what precedes it say more, another one is appended.

        Args:
            writer: the partition's, which has fenced every earlier one.
            partition: its number.
            known: what was read of it so far.
            read: reads on, up to an offset, and gives what is known then.
        """
        terms = self.terms(known, partition)
        while True:
            offset = writer.append([self.record(terms, partition)])
            failpoint("owner.announced")
            found = self.terms(read(offset), partition)
            found = replace(found, input_since=later(found.input_since, terms.input_since))
            if found == terms:
                return terms
            terms = found
