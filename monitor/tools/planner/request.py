"""From the words of the command line to targets and designs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from pydantic import ValidationError

from monitor.config import AtTimesMonitor
from monitor.config.problems import problems_of
from monitor.errors import DurationError, EpsilonError, UsageError
from monitor.privacy.epsilon import parse_epsilon
from monitor.public.instants import DAY, HOUR, MINUTE, SECOND, YEAR, format_duration, parse_duration
from monitor.tools.planner.designs import AtTimes, Design, OverTime
from monitor.tools.planner.targets import Alarm, FalseAlarms, FixedEpsilon, FixedThreshold, Pays, Targets

SLOTS: Final = (15 * MINUTE, HOUR, 6 * HOUR, DAY)
WINDOWS: Final = (DAY, 7 * DAY, 14 * DAY, 28 * DAY)
ANSWERS: Final = (1, 2, 3)
PERIOD: Final = 14 * DAY
HORIZON: Final = DAY

_OVER_TIME_ONLY: Final = ("window", "answers", "accept_ahead", "locations")
_AT_TIMES_ONLY: Final = ("at", "timezone", "horizon")
_FIXED: Final = ("epsilon", "threshold", "slot", *_OVER_TIME_ONLY, *_AT_TIMES_ONLY)
_MOST: Final = 10**9
_LONGEST: Final = 100 * YEAR


@dataclass(frozen=True, slots=True)
class Words:
    """The options as written, None (or empty) where not given; named as on the command line."""

    given: Mapping[str, str | tuple[str, ...]]

    def text(self, name: str) -> str | None:
        """An option's text."""
        value = self.given.get(name)
        return value if isinstance(value, str) else None

    def duration(self, name: str, least: int = SECOND) -> int | None:
        """An option that is a duration, in microseconds. Raises UsageError."""
        text = self.text(name)
        if text is None:
            return None
        try:
            duration = parse_duration(text)
        except DurationError as error:
            raise UsageError(f"{option(name)} {error}") from None
        if not least <= duration <= _LONGEST:
            raise UsageError(
                f"{option(name)} is {text}: expected a duration from {format_duration(least)} to 100y; write 1h or 14d."
            )
        return duration

    def number(self, name: str) -> int | None:
        """An option that is a whole number of at least 1. Raises UsageError."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and 1 <= int(text) <= _MOST):
            raise UsageError(f"{option(name)} is {text!r}: expected a whole number from 1 to {_MOST}; correct it.")
        return int(text)

    def epsilon(self, name: str) -> Fraction | None:
        """An option that is an exact ε. Raises UsageError."""
        text = self.text(name)
        try:
            return None if text is None else parse_epsilon(text)
        except EpsilonError as error:
            raise UsageError(f"{option(name)}: {error}") from None

    def chance(self, name: str) -> Fraction | None:
        """An option that is a chance above 0, 1 at most. Raises UsageError."""
        text = self.text(name)
        if text is None:
            return None
        number = text.removesuffix("%").strip()
        number = f"0{number}" if number.startswith(".") else number
        try:
            chance = parse_epsilon(number) / (100 if text.endswith("%") else 1)  # plain exact digits, as an ε is
        except EpsilonError:
            chance = Fraction(0)
        if not 0 < chance <= 1:
            raise UsageError(
                f"{option(name)} is {text!r}: expected a chance above 0, such as 0.95, 95% or 1; correct it."
            )
        return chance


def option(name: str) -> str:
    """How an option is written."""
    return "--" + name.replace("_", "-")


def targets_of(words: Words) -> Targets:
    """The targets that the command line names. Raises UsageError for a value that cannot be read, or half a target."""
    _pair(words, "alarm_at", "with")
    if words.text("in") and not words.text("pays_at_most"):
        raise UsageError("--in says in which period --pays-at-most holds: give both, or neither.")
    every, people, chance = words.duration("false_alarm_every"), words.number("alarm_at"), words.chance("with")
    threshold, epsilon, most = words.number("threshold"), words.epsilon("epsilon"), words.epsilon("pays_at_most")
    return Targets(
        FalseAlarms(every) if every is not None else None,
        Alarm(people, chance) if people is not None and chance is not None else None,
        FixedThreshold(threshold) if threshold is not None else None,
        FixedEpsilon(epsilon) if epsilon is not None else None,
        Pays(most, words.duration("in") or PERIOD) if most is not None else None,
    )


def require_decided(targets: Targets) -> None:
    """Raise UsageError where the targets leave T or ε without any bound, with what to add."""
    if not targets.decides_threshold:
        raise UsageError(
            "Nothing says what T must do: add --false-alarm-every (a lower bound), --alarm-at with --with (an upper "
            "bound), or --threshold."
        )
    if not targets.decides_epsilon:
        raise UsageError(
            "Nothing bounds ε: add --pays-at-most, --epsilon, or both --false-alarm-every and one of --alarm-at and "
            "--threshold."
        )


def only_targets(words: Words) -> None:
    """Raise UsageError for options that a configuration decides."""
    fixed = [option(name) for name in _FIXED if words.given.get(name)]
    if fixed or words.text("kind"):
        names = ", ".join(fixed or ["--kind"])
        raise UsageError(f"{names}: the configuration says it; leave it out, or leave out --config.")


def designs_of(words: Words) -> tuple[Design, ...]:
    """Every design that the options leave open.

    Raises:
        UsageError: for options that don't go together, and where no grid of slots fits the lengths given.
    """
    at_times = words.text("kind") == "at_times"
    strange = [option(name) for name in (_OVER_TIME_ONLY if at_times else _AT_TIMES_ONLY) if words.given.get(name)]
    if strange:
        kind = "over_time" if at_times else "at_times"
        raise UsageError(
            f"{', '.join(strange)}: only a monitor of kind {kind} has it; leave it out, or say --kind {kind}."
        )
    found = tuple(_at_times(words) if at_times else _over_time(words))
    if not found:
        raise UsageError(
            "No slot fits: --window must be a whole number of slots of at least one, and --accept-ahead a whole "
            f"number of slots. Slots tried: {', '.join(format_duration(slot) for slot in _grid(words))}; say --slot."
        )
    return found


def _grid(words: Words) -> tuple[int, ...]:
    slot = words.duration("slot")
    return SLOTS if slot is None else (slot,)


def _over_time(words: Words) -> Iterator[Design]:
    window, answers = words.duration("window"), words.number("answers")
    max_lead, share = words.duration("accept_ahead", 0) or 0, Fraction(1, words.number("locations") or 1)
    for length in WINDOWS if window is None else (window,):
        for slot in _grid(words):
            if length >= slot and length % slot == 0 and max_lead % slot == 0:
                for k in ANSWERS if answers is None else (answers,):
                    yield OverTime(slot, length // slot, max_lead // slot, k, share, share)


def _at_times(words: Words) -> Iterator[Design]:
    horizon = words.duration("horizon") or HORIZON
    times = _times(words)
    for slot in _grid(words):
        if horizon >= slot:
            yield AtTimes(slot, -(-horizon // slot), times)


def _times(words: Words) -> AtTimesMonitor:
    settings = {
        "name": "plan",
        "kind": "at_times",
        "at": words.given.get("at") or ("18:00",),
        "timezone": words.text("timezone") or "UTC",
        "reporting_horizon": "1d",
        "epsilon": 1,
        "threshold": 1,
    }
    try:
        return AtTimesMonitor.model_validate(settings)
    except ValidationError as error:
        raise UsageError("; ".join(str(problem) for problem in problems_of(error, "-", AtTimesMonitor))) from None


def _pair(words: Words, one: str, other: str) -> None:
    if bool(words.text(one)) != bool(words.text(other)):
        raise UsageError(f"{option(one)} and {option(other)} make one target: give both, or neither.")
