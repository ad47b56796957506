"""Every error of the product, on one page. A message names the key, the value, what was expected and what to do.

MonitorError
├── UsageError                  exit 2: wrong usage or configuration; nothing was started
│   ├── ConfigError             every problem of a configuration at once
│   ├── ContradictionError      targets that no plan can meet together
│   ├── DurationError           a duration that cannot be read
│   └── TimeError               a time that cannot be read
├── PrivacyError                exit 2: a value that the privacy arithmetic cannot take
│   ├── EpsilonError            not an exact ε > 0
│   ├── ExactnessError          a binary float where an exact number is needed
│   ├── CountsError             counts that are none: negative, not whole, or no entry at all
│   ├── SelectionError          answers asked for that there are not: none, or more than items
│   ├── PolicyError             a policy, or records and datasets that do not fit it
│   │   └── MixedPoliciesError  several policies where one guarantee needs one
│   ├── UnsuitableError         a mechanism whose proof needs what the query does not have
│   ├── BudgetError             more ε requested than remains
│   ├── UnknownEventError       an event that the accountant has no rule for
│   ├── InsecureNoiseError      noise that is not the operating system's, in the service
│   └── OverspentError          more than the configuration states that one person may pay
├── RefusedError                exit 3: refused because of what was found on the servers
│   ├── TopicError              a topic is missing or has settings that would break a promise
│   │   ├── InputChangedError   the input topic is not the one that the facts were read from
│   │   └── LedgerChangedError  the output topic is not the one whose ledger was taken over
│   ├── EvictionError           Redis may evict facts
│   ├── LedgerError             the ledger is uninitialised, expired or another service's
│   ├── PeriodError             running marks and the configuration exceed what a person may pay
│   └── NotEmptyError           replay found data of another run
└── FailedError                 exit 1: failed while running
    ├── UnreachableError        a server cannot be reached
    ├── EmbeddedError           an embedded server cannot be had or started
    ├── WindowsError            Redis holds something that is not ours, or cannot answer
    ├── FencedError             another owner has taken over a ledger partition
    ├── ClockError              this machine's clock and that of Redis differ
    └── ReplayError             a replay cannot go on
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3


class MonitorError(Exception):
    """The root of all errors that the product raises on purpose."""

    exit_code: ClassVar[int] = EXIT_FAILED


class UsageError(MonitorError):
    """The command or its configuration is wrong; nothing was started."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration.

    `key` is the dotted path (`monitors.0.threshold`), `value` what was found (never a secret), `expected` what would
    be right, `remedy` what to do.
    """

    key: str
    value: str
    expected: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line: key, value, what was expected, what to do."""
        found = f" is {self.value}" if self.value else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.key}{found}: expected {self.expected}.{remedy}"


class ConfigError(UsageError):
    """A configuration that cannot be used: all of its problems at once."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        self.source = source
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"{source}: {count}, nothing was started:\n{lines}")


class ContradictionError(UsageError):
    """Targets that no plan can meet together. `names` are those of the targets that collide."""

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(message)


class DurationError(UsageError, ValueError):
    """A duration that is not written as in Prometheus (`30s`, `1h30m`, `14d`)."""


class TimeError(UsageError, ValueError):
    """A time that is not RFC 3339 with an offset."""


class PrivacyError(MonitorError):
    """A value that the privacy arithmetic cannot take."""

    exit_code = EXIT_USAGE


class EpsilonError(PrivacyError, ValueError):
    """An ε that is not an exact rational above zero."""


class ExactnessError(PrivacyError, ValueError):
    """A binary float where an exact number is needed."""


class CountsError(PrivacyError, ValueError):
    """Counts that are none: negative, not whole, or no entry at all. The message never says a count."""


class SelectionError(PrivacyError, ValueError):
    """Answers asked for that there are not: fewer than one, or more than there are items."""


class PolicyError(PrivacyError, ValueError):
    """A policy that makes no sense, or records and datasets that do not fit it."""


class MixedPoliciesError(PolicyError):
    """Several policies where one guarantee needs one."""


class UnsuitableError(PrivacyError):
    """A mechanism whose proof needs what the query under this policy does not have."""


class BudgetError(PrivacyError):
    """More ε requested than remains. Nothing was spent."""

    def __init__(self, requested: Fraction, remaining: Fraction, remedy: str) -> None:
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining
        super().__init__(
            f"ε requested is {requested}, remaining is {remaining}: expected at most what remains, "
            f"{self.difference} less. {remedy}"
        )


class UnknownEventError(PrivacyError, TypeError):
    """An event that the accountant has no rule for: what it costs is unknown, so it is refused."""


class InsecureNoiseError(PrivacyError):
    """Noise from a generator that can be predicted, where answers are published."""


class OverspentError(PrivacyError):
    """A configuration under which one person may pay more than it states."""


class RefusedError(MonitorError):
    """The service refuses to start because of what it found on the servers."""

    exit_code = EXIT_REFUSED


class TopicError(RefusedError):
    """A topic is missing, or has settings under which a promise would not hold."""


class InputChangedError(TopicError):
    """The input topic is not the one that the facts were read from: it was deleted, or made anew."""


class LedgerChangedError(TopicError):
    """The output topic is not the one whose ledger was taken over: it was deleted, or made anew."""


class EvictionError(RefusedError):
    """Redis may evict facts: a missing fact is an undercount, and an undercount a false "safe"."""


class LedgerError(RefusedError):
    """The ledger is uninitialised, has expired, or belongs to another service."""


class PeriodError(RefusedError):
    """Running marks and the configuration together exceed what one person may pay in the period."""


class NotEmptyError(RefusedError):
    """Replay needs topics and keys that nothing was written to."""


class FailedError(MonitorError):
    """Something failed while running."""


class UnreachableError(FailedError):
    """A server cannot be reached."""


class EmbeddedError(FailedError):
    """An embedded server cannot be had, started or kept."""


class WindowsError(FailedError):
    """The windows' store holds something that is not ours, or cannot answer."""


class FencedError(FailedError):
    """Another owner has taken over a ledger partition: this one may not write to it any more."""


class ClockError(FailedError):
    """The clocks of this machine and of Redis differ by more than the tolerance: one of them is wrong."""


class ReplayError(FailedError):
    """A replay cannot go on."""
