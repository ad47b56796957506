"""All errors of the product. A message names the key, its value, what was expected, and what to do.

MonitorError
├── UsageError                  exit 2: wrong usage or configuration; nothing was started
│   ├── ConfigError             all problems of a configuration at once
│   ├── ContradictionError      targets that no plan can meet together
│   ├── DelaysError             a file of report delays that cannot be used
│   ├── DurationError           an invalid duration
│   ├── FileFormatError         a file of rows that cannot be read: another format, a broken quote, missing columns
│   ├── TimeError               an invalid time
│   └── TokenError              a text from which a subscriber cannot resume
├── PrivacyError                exit 2: a value that the privacy arithmetic cannot use
│   ├── EpsilonError            not an exact ε > 0
│   ├── ExactnessError          a binary float where an exact number is needed
│   ├── CountsError             invalid counts: negative, not whole, or empty
│   ├── BoundsError             bounds the wrong way round, or equal
│   ├── NoDataError             no records where at least one is needed
│   ├── SelectionError          the requested answer count is out of range
│   ├── PolicyError             an invalid policy, or records and datasets that do not fit it
│   │   ├── TrivialPolicyError  a policy under which no record, or every record, is sensitive
│   │   └── MixedPoliciesError  several policies where one guarantee needs one
│   ├── UnsuitableError         a mechanism whose proof does not apply to the query
│   ├── BudgetError             more ε requested than remains
│   ├── UnknownEventError       an event that the accountant has no rule for
│   └── InsecureNoiseError      predictable noise in the service
├── RefusedError                exit 3: the service refuses to start because of the state of the servers
│   ├── TopicError              a topic is missing or has unsafe settings
│   │   ├── InputChangedError   the input topic was deleted or re-created
│   │   └── LedgerChangedError  the output topic was deleted or re-created
│   ├── EvictionError           Redis may evict facts
│   ├── LedgerError             the ledger is uninitialised, unreadable, expired or another service's
│   ├── PeriodError             running marks and the configuration exceed what a person may pay
│   └── NotEmptyError           replay found data of another run
└── FailedError                 exit 1: failed while running
    ├── UnreachableError        a server does not answer
    ├── EmbeddedError           an embedded server cannot be installed, started or kept running
    ├── StoreError            a Redis key has unexpected content, or Redis cannot answer
    ├── FencedError             another owner has taken over a ledger partition
    ├── ClockError              the clocks of this machine and of Redis differ
    ├── ReplayError             a replay cannot continue
    └── SendError               a signal stopped the sending of a file
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3


def escape_controls(text: str) -> str:
    """Return one line of text with a replacement character for each control character.

    Commands print what files and topics contain, such as an unknown key. Whoever wrote it could otherwise control the
    terminal.
    """
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


class MonitorError(Exception):
    """The base class of all errors of the product."""

    exit_code: ClassVar[int] = EXIT_FAILED


class UsageError(MonitorError):
    """The command or its configuration is wrong; nothing was started."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a configuration."""

    key: str
    """The dotted path (`monitors.0.threshold`)."""
    value: str
    """The value found, never a secret."""
    expected: str
    """A description of valid values."""
    remedy: str = ""
    """What to do."""
    monitor: str = ""
    """The name of the monitor that the key is about."""

    def __str__(self) -> str:
        """Return one line: key, value, what was expected, what to do."""
        monitor = f" ({self.monitor})" if self.monitor else ""
        found = f" is {self.value}" if self.value else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.key}{monitor}{found}: expected {self.expected}.{remedy}"


class ConfigError(UsageError):
    """An invalid configuration, with all of its problems."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        self.source = source
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"{source}: {count}, nothing was started:\n{lines}")


class FileFormatError(UsageError):
    """A file of rows that cannot be read: it has another format, a broken quote, or a header that does not fit."""

    def __init__(self, path: Path, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems]
        super().__init__(f"{path}: {lines[0]}" if len(lines) == 1 else "\n  - ".join([f"{path}:", *lines]))


class ContradictionError(UsageError):
    """Targets that no plan can meet together. `names` are the conflicting targets."""

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(message)


class DelaysError(UsageError):
    """A file of report delays (`--delays`) that is empty, has another form, or has numbers that cannot be shares."""


class DurationError(UsageError, ValueError):
    """A duration that is not written as in Prometheus (`30s`, `1h30m`, `14d`)."""


class TimeError(UsageError, ValueError):
    """A time that is not RFC 3339 with an offset."""


class TokenError(UsageError):
    """A text from which a subscriber cannot resume: it is not a token, or is one of another version or topic."""


class PrivacyError(MonitorError):
    """A value that the privacy arithmetic cannot use."""

    exit_code = EXIT_USAGE


class EpsilonError(PrivacyError, ValueError):
    """An ε that is not an exact rational above zero."""


class ExactnessError(PrivacyError, ValueError):
    """A binary float where an exact number is needed."""


class CountsError(PrivacyError, ValueError):
    """Invalid counts: negative, not whole, or empty. The message never contains a count."""


class BoundsError(PrivacyError, ValueError):
    """Bounds of values that are equal, or the wrong way round."""


class NoDataError(PrivacyError, ValueError):
    """No records where at least one is needed, such as for a mean over a public number of records."""


class SelectionError(PrivacyError, ValueError):
    """A requested answer count that is out of range: less than one, or more than the number of items."""


class PolicyError(PrivacyError, ValueError):
    """An invalid policy, or records and datasets that do not fit it."""


class TrivialPolicyError(PolicyError):
    """A policy under which no record is sensitive, or every record is."""


class MixedPoliciesError(PolicyError):
    """Several policies where one guarantee needs one."""


class UnsuitableError(PrivacyError):
    """A mechanism whose proof does not apply to the query under this policy."""


class BudgetError(PrivacyError):
    """More ε requested than remains. Nothing was spent."""

    def __init__(self, requested: Fraction, remaining: Fraction, remedy: str) -> None:
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining
        super().__init__(
            f"ε requested is {requested}, remaining is {remaining}: expected at most {remaining}, which is "
            f"{self.difference} less. {remedy}"
        )


class UnknownEventError(PrivacyError, TypeError):
    """An event that the accountant has no rule for. Its cost is unknown, so it is refused."""


class InsecureNoiseError(PrivacyError):
    """Noise from a predictable generator where answers are published."""


class RefusedError(MonitorError):
    """The service refuses to start because of the state of the servers."""

    exit_code = EXIT_REFUSED


class TopicError(RefusedError):
    """A topic is missing, or has settings that would break a guarantee."""


class InputChangedError(TopicError):
    """The input topic was deleted or re-created: the facts in Redis come from the earlier topic."""


class LedgerChangedError(TopicError):
    """The output topic was deleted or re-created: the ledger that was taken over was in the earlier topic."""


class EvictionError(RefusedError):
    """Redis may evict facts. Missing facts make a count too low, which can cause a false "safe"."""


class LedgerError(RefusedError):
    """The ledger is uninitialised, unreadable or expired, or it does not fit this service and its configuration."""


class PeriodError(RefusedError):
    """Running marks and the configuration together exceed what one person may pay in the period."""


class NotEmptyError(RefusedError):
    """Replay found topics that are not empty, or Redis keys of an earlier run."""


class FailedError(MonitorError):
    """Something failed while running."""


class UnreachableError(FailedError):
    """A server does not answer."""


class EmbeddedError(FailedError):
    """An embedded server cannot be installed, started or kept running."""


class StoreError(FailedError):
    """A Redis key has unexpected content, or Redis cannot answer."""


class FencedError(FailedError):
    """Another owner has taken over a ledger partition, so this owner must not write to it any more."""


class ClockError(FailedError):
    """The clocks of this machine and of Redis differ by more than `clock.tolerance`."""


class ReplayError(FailedError):
    """A replay cannot continue."""


class SendError(FailedError):
    """A signal stopped the sending of a file. The message says how far it was sent."""
