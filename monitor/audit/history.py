"""The history of a run: what earlier records say about ticks, signatures and drawings. All configurations share it.

If earlier records are not known, because they have expired or no configuration was given for them, the next record of
the same subject is assumed to be correct about them.
"""

from __future__ import annotations

from typing import TypeVar, cast

from monitor.audit.findings import TICKS, Findings

Subject = tuple[str, int | None, int | str]
"""A monitor, and what its answers are about: None and a location, or a designated time and a shard."""

Drawn = tuple[str, int | None, str, int]
"""A drawn noisy count: its monitor, its designated time (None over time), its location and its tick."""


class Memory:
    """What one kind keeps of earlier answers. It is empty at first."""

    def forget(self, time: int) -> None:
        """Forget what is about designated times before an instant. The default keeps everything."""
        del time


M = TypeVar("M", bound=Memory)


class History:
    """What earlier records say. `whole`: no output record has expired.

    `lost_slots` has, by output partition, the latest slot in which an earlier ledger was lost.
    """

    def __init__(self, findings: Findings) -> None:
        self.whole = True
        self.lost_slots: dict[int, int] = {}
        self._findings = findings
        self._ticks: dict[Subject, int] = {}
        self._memories: dict[type[Memory], Memory] = {}
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

    def recall(self, memory: type[M]) -> M:
        """Return what a kind keeps of earlier answers. All configurations share it."""
        return cast("M", self._memories.setdefault(memory, memory()))

    def forget(self, tick: int, time: int) -> None:
        """Forget what is known of ticks before `tick`, and of designated times before the instant `time`."""
        self._signed = {partition: {at for at in ticks if at >= tick} for partition, ticks in self._signed.items()}
        self._cut_off = {drawn for drawn in self._cut_off if drawn[3] >= tick}
        self._ticks = {one: tick for one, tick in self._ticks.items() if one[1] is None or one[1] >= time}
        for memory in self._memories.values():
            memory.forget(time)
