"""Whether the follower judged everything, and since which tick every answer was proven."""

from __future__ import annotations

from monitor.tools.audit.watching import Outcome


class Completeness:
    """Whether the ticks of the last turn were judged completely, and since when every answer was proven.

    `sound`: the last turn that judged any ticks judged all by a configuration, and with all input that they count.
    `proven_since`: the first tick of the current stretch in which all answers were compared with the input; None if
    there is no such stretch.
    """

    def __init__(self) -> None:
        self.sound = True
        self.proven_since: int | None = None
        self._first_of_turn = True

    def begin_turn(self) -> None:
        """Note that another turn begins. Its first judged tick replaces the result of earlier turns."""
        self._first_of_turn = True

    def judge(self, tick: int, outcome: Outcome, *, muted: bool) -> None:
        """Note the outcome of a tick. `muted`: its findings are not reported, so it does not count as proven."""
        sound = outcome in (Outcome.PROVEN, Outcome.OUTPUT_ONLY)
        self.sound = sound and (self.sound or self._first_of_turn)
        self._first_of_turn = False
        if outcome is not Outcome.PROVEN or muted:
            self.proven_since = None
        elif self.proven_since is None:
            self.proven_since = tick

    def give_up(self) -> None:
        """Note that answers will never be compared with the input."""
        self.sound = self._first_of_turn = False
        self.proven_since = None
