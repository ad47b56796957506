"""What is said about a monitor of kind `hot_spots`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from monitor.kinds.base.examples import GRID, MUSEUM, NOON, REGISTRY, SOURCE, STATION, AnswerExample
from monitor.kinds.base.words import SELDOM, Note
from monitor.kinds.base.words_of_designated_times import TimedWords
from monitor.kinds.hot_spots.keys_and_parameters import HotSpotsMonitor
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.privacy.alarm_chances import compute_mean_noise, find_threshold
from monitor.privacy.payment_of_one_person import Charge
from monitor.values.wording import format_amount, format_percent


@dataclass(frozen=True)
class HotSpotsWords(TimedWords[HotSpotsMonitor]):
    """What is said about a monitor of kind `hot_spots`."""

    note_key = "ranking"
    meaning = "* **The busiest places** are named with upper bounds. Noise may have changed their order."

    @staticmethod
    def list_examples() -> Iterator[AnswerExample]:
        """Yield the hot spots of a noon."""
        record = make_hot_spots_record(
            source=SOURCE,
            monitor="busiest",
            time=NOON,
            tick=35,
            as_of=GRID.as_of(35),
            registry=REGISTRY,
            locations=40,
            top=2,
            epsilon=Fraction(1, 2),
            hot_spots=((MUSEUM, 31), (STATION, 27)),
        )
        yield AnswerExample("complete", "The two places with the most people.", record)

    @property
    def mean_noise(self) -> float:
        """The noise of a count in people, on average."""
        return compute_mean_noise(self.monitor.epsilon)

    @property
    def below(self) -> int:
        """With a chance above 1 - `SELDOM`, the noise at all locations is less than this number of people."""
        return find_threshold(self.monitor.epsilon, self.locations, SELDOM)

    def ask(self) -> str:
        """Return which places had the most people."""
        return (
            f"Which {self.monitor.top} places had the most reported people at {self.name_times()}? This is answered "
            f"once, {self.spell_horizon()} later."
        )

    def explain(self, charge: Charge) -> str:
        """Return how the charge is computed."""
        return (
            self.explain_times(str(self.monitor.epsilon), charge)
            + " This covers the counts of all locations together, and everyone who was at any location pays it."
        )

    def describe_width(self) -> str:
        """Return the noise of the published counts."""
        return (
            f"Noise adds {self.mean_noise:,.2g} people to a count on average, and fewer than {self.below} to every "
            "count with a chance of 95 %. Each number is a certain upper bound."
        )

    def note(self) -> Note:
        """Return how many locations are named, and the noise of their counts."""
        top = self.monitor.top
        text = (
            f"{min(top, self.locations)} of {self.locations} locations are named, each with an upper bound of its "
            f"number of people; none is called safe. Noise adds {format_amount(self.mean_noise)} people to a count on "
            f"average, and fewer than {self.below} to every count with a chance of {format_percent(1 - SELDOM)}."
        )
        tree = {"top": top, "mean_noise": self.mean_noise, "below": self.below}
        return Note(tree, "What hot spots mean", text)
