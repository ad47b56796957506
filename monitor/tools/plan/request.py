"""Read targets and designs from the options of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from pydantic import ValidationError

from monitor.config import AtTimesMonitor
from monitor.config.problems import list_problems
from monitor.contracts.instants import DAY, HOUR, MINUTE, SECOND, YEAR, format_duration, parse_duration
from monitor.errors import DurationError, EpsilonError, UsageError
from monitor.privacy.epsilon import parse_epsilon
from monitor.tools.plan.designs import AtTimes, Design, OverTime
from monitor.tools.plan.targets import Alarm, FalseAlarms, FixedEpsilon, FixedThreshold, Pays, Targets

SLOTS: Final = (15 * MINUTE, HOUR, 6 * HOUR, DAY)
WINDOWS: Final = (DAY, 7 * DAY, 14 * DAY, 28 * DAY)
ANSWERS: Final = (1, 2, 3)
PERIOD: Final = 14 * DAY
HORIZON: Final = DAY

_OVER_TIME_ONLY: Final = ("window", "answers", "accept_ahead", "locations")
_AT_TIMES_ONLY: Final = ("at", "timezone", "horizon")
_FIXED: Final = ("epsilon", "threshold", "slot", *_OVER_TIME_ONLY, *_AT_TIMES_ONLY)
_OVER_TIME_FIT: Final = "--window must be at least one slot, and --window and --accept-ahead a whole number of slots"
_AT_TIMES_FIT: Final = f"--horizon ({format_duration(HORIZON)} by default) must be at least one slot"
_MOST: Final = 10**9
_LONGEST: Final = 100 * YEAR


@dataclass(frozen=True, slots=True)
class Options:
    """The options as written on the command line, by name. Options not given are None or empty."""

    given: Mapping[str, str | tuple[str, ...]]

    def find_text(self, name: str) -> str | None:
        """Return the text of an option; None if it is not given."""
        value = self.given.get(name)
        return value if isinstance(value, str) else None

    def parse_duration(self, name: str, least: int = SECOND) -> int | None:
        """Return a duration option in microseconds, None if it is not given. Raise UsageError if it is invalid."""
        text = self.find_text(name)
        if text is None:
            return None
        try:
            duration = parse_duration(text)
        except DurationError as error:
            raise UsageError(f"{format_option(name)} {error}") from None
        if not least <= duration <= _LONGEST:
            raise UsageError(
                f"{format_option(name)} is {text}: expected a duration from {format_duration(least)} to 100y, such as "
                "1h or 14d."
            )
        return duration

    def parse_number(self, name: str) -> int | None:
        """Return an option that is a whole number of at least 1. Raise UsageError if it is invalid."""
        text = self.find_text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and 1 <= int(text) <= _MOST):
            raise UsageError(
                f"{format_option(name)} is {text!r}: expected a whole number from 1 to {_MOST}; correct it."
            )
        return int(text)

    def parse_epsilon(self, name: str) -> Fraction | None:
        """Return an option that is an exact ε. Raise UsageError if it is invalid."""
        text = self.find_text(name)
        try:
            return None if text is None else parse_epsilon(text)
        except EpsilonError as error:
            raise UsageError(f"{format_option(name)}: {error}") from None

    def parse_chance(self, name: str) -> Fraction | None:
        """Return an option that is a chance above 0 and at most 1. Raise UsageError if it is invalid."""
        text = self.find_text(name)
        if text is None:
            return None
        number = text.removesuffix("%").strip()
        number = f"0{number}" if number.startswith(".") else number
        try:
            chance = parse_epsilon(number) / (100 if text.endswith("%") else 1)  # exact digits, in the form of an ε
        except EpsilonError:
            chance = Fraction(0)
        if not 0 < chance <= 1:
            raise UsageError(
                f"{format_option(name)} is {text!r}: expected a chance above 0, such as 0.95, 95% or 1; correct it."
            )
        return chance


def format_option(name: str) -> str:
    """Return an option as written on the command line."""
    return "--" + name.replace("_", "-")


def read_targets(options: Options) -> Targets:
    """Return the targets. Raise UsageError for an invalid value, or if one option of a pair is missing."""
    _require_both(options, "alarm_at", "with")
    if options.find_text("in") and not options.find_text("pays_at_most"):
        raise UsageError("--in is the period of --pays-at-most: add --pays-at-most, or leave out --in.")
    every, people, chance = (
        options.parse_duration("false_alarm_every"),
        options.parse_number("alarm_at"),
        options.parse_chance("with"),
    )
    threshold, epsilon, most = (
        options.parse_number("threshold"),
        options.parse_epsilon("epsilon"),
        options.parse_epsilon("pays_at_most"),
    )
    return Targets(
        FalseAlarms(every) if every is not None else None,
        Alarm(people, chance) if people is not None and chance is not None else None,
        FixedThreshold(threshold) if threshold is not None else None,
        FixedEpsilon(epsilon) if epsilon is not None else None,
        Pays(most, options.parse_duration("in") or PERIOD) if most is not None else None,
    )


def require_decided(targets: Targets) -> None:
    """Raise UsageError if the targets do not bound T or ε."""
    if not targets.decides_threshold:
        raise UsageError(
            "Nothing bounds T: add --false-alarm-every (a lower bound), --alarm-at with --with (an upper "
            "bound), or --threshold."
        )
    if not targets.decides_epsilon:
        raise UsageError(
            "Nothing bounds ε: add --pays-at-most, --epsilon, or both --false-alarm-every and one of --alarm-at and "
            "--threshold."
        )


def require_only_targets(options: Options) -> None:
    """Raise UsageError for options whose values the configuration sets."""
    fixed = [format_option(name) for name in _FIXED if options.given.get(name)]
    if fixed or options.find_text("kind"):
        names = ", ".join(fixed or ["--kind"])
        raise UsageError(f"{names}: already set by the configuration; leave it out, or leave out --config.")


def read_designs(options: Options) -> tuple[Design, ...]:
    """Return every design that the options allow.

    Raises:
        UsageError: options exclude each other, or no slot fits the given lengths.
    """
    at_times = options.find_text("kind") == "at_times"
    foreign = [
        format_option(name) for name in (_OVER_TIME_ONLY if at_times else _AT_TIMES_ONLY) if options.given.get(name)
    ]
    if foreign:
        kind = "over_time" if at_times else "at_times"
        raise UsageError(f"{', '.join(foreign)}: only for monitors of kind {kind}; leave it out, or set --kind {kind}.")
    designs = tuple(_list_at_times(options) if at_times else _list_over_time(options))
    if not designs:
        wanted = _AT_TIMES_FIT if at_times else _OVER_TIME_FIT
        tried = ", ".join(format_duration(slot) for slot in _list_slots(options))
        raise UsageError(f"No slot fits: {wanted}. Slots tried: {tried}; set --slot.")
    return designs


def _list_slots(options: Options) -> tuple[int, ...]:
    slot = options.parse_duration("slot")
    return SLOTS if slot is None else (slot,)


def _list_over_time(options: Options) -> Iterator[Design]:
    window, answers = options.parse_duration("window"), options.parse_number("answers")
    max_lead, share = (
        options.parse_duration("accept_ahead", 0) or 0,
        Fraction(1, options.parse_number("locations") or 1),
    )
    for length in WINDOWS if window is None else (window,):
        for slot in _list_slots(options):
            if length >= slot and length % slot == 0 and max_lead % slot == 0:
                for k in ANSWERS if answers is None else (answers,):
                    yield OverTime(slot, length // slot, max_lead // slot, k, share, share)


def _list_at_times(options: Options) -> Iterator[Design]:
    horizon = options.parse_duration("horizon") or HORIZON
    times = _make_times(options)
    for slot in _list_slots(options):
        if horizon >= slot:
            yield AtTimes(slot, -(-horizon // slot), times)


def _make_times(options: Options) -> AtTimesMonitor:
    monitor = {
        "name": "plan",
        "kind": "at_times",
        "at": options.given.get("at") or ("18:00",),
        "timezone": options.find_text("timezone") or "UTC",
        "reporting_horizon": "1d",
        "epsilon": 1,
        "threshold": 1,
    }
    try:
        return AtTimesMonitor.model_validate(monitor)
    except ValidationError as error:
        raise UsageError("; ".join(str(problem) for problem in list_problems(error, "-", AtTimesMonitor))) from None


def _require_both(options: Options, first: str, second: str) -> None:
    if bool(options.find_text(first)) != bool(options.find_text(second)):
        raise UsageError(f"{format_option(first)} and {format_option(second)} are one target: give both, or neither.")
