"""The history of a run: ticks, marks, noisy counts and drawings of earlier records. All configurations share it.

If earlier records are not known, because they have expired or no configuration was given for them, the next record of
the same subject is assumed to be correct about them.
"""

from __future__ import annotations

from monitor.audit.findings import TICKS, Findings
from monitor.audit.records import AtTimes, Mark, NoisyCount, OverTime, Record

Location = tuple[str, str]
"""A monitor and a location."""

Subject = tuple[str, int | None, int | str]
"""A monitor, and what its answers are about: None and a location, or a designated time and a shard."""

Drawn = tuple[str, int | None, str, int]
"""A drawn noisy count: its monitor, its designated time (None over time), its location and its tick."""


class History:
    """What earlier records say. `whole`: no output record has expired.

    `bounds_drawn` has (monitor, τ, shard, number of shards) of lower bounds, and `answered` has (monitor, τ) of hot
    spots and dwell times. `lost_slots` has, by output partition, the latest slot in which an earlier ledger was lost.
    """

    def __init__(self, findings: Findings) -> None:
        self.whole = True
        self.bounds_drawn: set[tuple[str, int, int, int]] = set()
        self.answered: set[tuple[str, int]] = set()
        self.lost_slots: dict[int, int] = {}
        self._findings = findings
        self._ticks: dict[Subject, int] = {}
        self._marks: dict[Location, list[Mark] | None] = {}
        self._noisy: dict[tuple[str, int], dict[str, NoisyCount]] = {}
        self._shards: set[tuple[str, int, int, int]] = set()
        self._signed: dict[int, set[int]] = {}
        self._latest: dict[int, set[Drawn]] = {}
        self._cut_off: set[Drawn] = set()

    def note_checkpoint(self, partition: int, tick: int) -> None:
        """Note that a tick of an output partition has a checkpoint."""
        self._signed.setdefault(partition, set()).add(tick)
        self._latest.pop(partition, None)

    def note_drawn(self, partition: int, drawn: Drawn) -> None:
        """Note a new noisy count of an output partition, if the partition has checkpoints."""
        if partition in self._signed:
            self._latest.setdefault(partition, set()).add(drawn)

    def note_cut_off(self, partition: int) -> None:
        """Note that the owner of the latest noisy counts was stopped before their checkpoint.

        The next owner may sign the rest of the tick, but never these.
        """
        self._cut_off |= self._latest.pop(partition, set())

    def lacks_checkpoint(self, partition: int, tick: int) -> bool:
        """Return whether a partition has checkpoints, and none of this tick.

        Then the owner was stopped within the tick's transaction, or somebody else wrote the tick.
        """
        return partition in self._signed and tick not in self._signed[partition]

    def is_unsigned(self, partition: int, drawn: Drawn) -> bool:
        """Return whether a noisy count lacks a signature. It is spent, but later ticks may leave it out.

        Its tick has no checkpoint, or got one only from the next owner, who signs what it has drawn itself.
        """
        return self.lacks_checkpoint(partition, drawn[3]) or drawn in self._cut_off

    def note_tick(self, subject: Subject, name: str, tick: int) -> bool:
        """Note the next tick of a subject. Return False if it is not later than the previous one."""
        last = self._ticks.get(subject)
        if last is None or tick > last:
            self._ticks[subject] = tick
            return True
        again = "a second time" if tick == last else f"after tick {last}"
        self._findings.add(TICKS, f"{name}: tick {tick} is answered {again}")
        return False

    def get_marks(self, subject: Location) -> list[Mark] | None:
        """Return the marks of a location; None if they are not known."""
        return self._marks.get(subject, [] if self.whole else None)

    def set_marks(self, subject: Location, marks: list[Mark]) -> None:
        """Set the marks of a location after a record."""
        self._marks[subject] = marks

    def get_noisy_counts(self, snapshot: AtTimes) -> dict[str, NoisyCount]:
        """Return the noisy counts about a designated time by location, to which the caller adds new ones.

        Locations can change their shards when the configuration changes, so the counts of all shards are together. If
        earlier records are not known, the first snapshot of a shard is correct about them.
        """
        known = self._noisy.setdefault((snapshot.monitor, snapshot.time), {})
        subject = (snapshot.monitor, snapshot.time, snapshot.shard, snapshot.shards)
        if subject not in self._shards and not self.whole:
            earlier = {name: count for name, count in snapshot.noisy_counts.items() if count.tick < snapshot.tick}
            known.update({name: count for name, count in earlier.items() if name not in known})
        self._shards.add(subject)
        return known

    def doubt(self, record: Record) -> None:
        """Note an answer that is not judged: what it says about earlier answers is assumed to be correct."""
        form = record.form
        if isinstance(form, OverTime):
            self._marks[form.monitor, form.location_id] = None
        elif isinstance(form, AtTimes):
            self._noisy.setdefault((form.monitor, form.time), {}).update(form.noisy_counts)
        else:
            self.answered.add((form.monitor, form.time))

    def forget(self, tick: int, time: int) -> None:
        """Forget what is known of ticks before `tick`, and of designated times before the instant `time`."""
        self._signed = {partition: {at for at in ticks if at >= tick} for partition, ticks in self._signed.items()}
        self._cut_off = {drawn for drawn in self._cut_off if drawn[3] >= tick}
        self._noisy = {subject: counts for subject, counts in self._noisy.items() if subject[1] >= time}
        self._ticks = {one: tick for one, tick in self._ticks.items() if one[1] is None or one[1] >= time}
        self._shards = {subject for subject in self._shards if subject[1] >= time}
        self.bounds_drawn = {subject for subject in self.bounds_drawn if subject[1] >= time}
        self.answered = {subject for subject in self.answered if subject[1] >= time}
