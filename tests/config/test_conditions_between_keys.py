"""Rules between values of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.config.conftest import ABSENT

GROUP: Final = "a name that does not end in -release, or in - and 16 hexadecimal digits"
"""The service `tokyo` uses the groups `tokyo`, `tokyo-release` and `tokyo-<fingerprint>`."""

SLOTS: Final = "a whole number of slots of 1h"
LEAST: Final = "at least one slot (1h)"
ONCE: Final = "each designated time once"
SECONDS: Final = {"clock.slot": "1s", "clock.release_delay": "500ms", "clock.tolerance": "100ms"}
MOST: Final = 2**31 - 1 - (14 * 24 + 15 / 60) * 3600
"""The most seconds of accept_ahead with slots of one second, a window of 14 days, and a default stay of 15 minutes."""

AHEAD: Final = tuple(f"{seconds // 60:.0f}m{seconds % 60:.0f}s" for seconds in (MOST, MOST + 1))
SASL: Final = {"kafka.security_protocol": "SASL_SSL"}
TLS: Final = {"kafka.security_protocol": "SSL"}
COMPLETE: Final = {**SASL, "kafka.sasl_mechanism": "SCRAM-SHA-512", "kafka.username": "monitor"}
PASSWORD: Final = {"LOCATION_MONITOR__KAFKA__PASSWORD": "hunter2"}


def split(visits: int, alerts: int, shards: int = 16) -> dict[str, Any]:
    """Return the changes for these numbers of partitions and shards."""
    return {"service.shards": shards, "kafka.partitions": {"visits": visits, "alerts": alerts}}


def name_topics(visits: str, alerts: str) -> dict[str, Any]:
    return {"kafka.topics.visits": visits, "kafka.topics.alerts": alerts}


Refused = tuple[Mapping[str, Any], str, str, str]

REFUSED: Final[tuple[Refused, ...]] = (
    ({"clock.tolerance": "30m", "clock.release_delay": "31m"}, "clock.release_delay", "", "Lower clock.tolerance or"),
    ({"clock.release_delay": "1s"}, "clock.release_delay", "more than clock.tolerance (1s)", ""),
    ({"visits.accept_ahead": "90m"}, "visits.accept_ahead", SLOTS, "Set it to 1h or 2h."),
    ({"monitors.0.window": "90m"}, "monitors.0.window", SLOTS, "Set it to 1h or 2h."),
    (
        {"visits.accept_ahead": AHEAD[1], **SECONDS},
        "visits.accept_ahead",
        "which now take 2147483648",
        "lengthen clock.slot",
    ),
    ({"visits.accept_ahead": "70y", **SECONDS}, "visits.accept_ahead", "fewer than 2^31 slots of 1s", ""),
    ({"visits.default_stay": "70y", **SECONDS}, "visits.default_stay", "fewer than 2^31 slots of 1s", ""),
    ({"monitors.0.window": "70y", **SECONDS}, "monitors.0.window", "fewer than 2^31 slots of 1s", ""),
    ({"monitors.0.window": "59m"}, "monitors.0.window", LEAST, ""),
    ({"monitors.1.reporting_horizon": "59m"}, "monitors.1.reporting_horizon", LEAST, ""),
    ({"monitors.1.name": "stations"}, "monitors.1.name", "a unique name, but monitors.0 has the same", ""),
    ({"monitors.0.locations": ["a", "b", "a", "a"]}, "monitors.0.locations", "each location once", ""),
    ({"monitors.0.locations": []}, "monitors.0.locations", "at least one location", ""),
    ({"monitors.0.locations": {}}, "monitors.0.locations", "at least one location", ""),
    ({"monitors.1.at": []}, "monitors.1.at", "at least one designated time", ""),
    (
        {"monitors.0.epsilon": "1/1000000000000", "monitors.0.locations": ["a", "b"]},
        "monitors.0.epsilon",
        "for each answer of each location",
        "",
    ),
    ({"monitors.1.timezone": ABSENT}, "monitors.1.timezone", "the time zone of the times of day in `at`", ""),
    ({"monitors.1.at": ["18:00", "18:00:00"]}, "monitors.1.at", ONCE, ""),
    ({"monitors.1.at": ["2026-01-05T18:00:00Z", "2026-01-05T19:00:00+01:00"]}, "monitors.1.at", ONCE, ""),
    ({"monitors.1.at": ["18:00", "2026-01-05T09:00:00Z"]}, "monitors.1.at", ONCE, ""),  # 18:00 in Tokyo
    ({"monitors.1.at": ["Mon-Thu 18:00", "Tue,Sat 18:00"]}, "monitors.1.at", ONCE, "Remove"),
    ({"monitors.1.at": ["Mon 18:00", "2026-01-05T09:00:00Z"]}, "monitors.1.at", ONCE, ""),  # a Monday
    (
        {"kafka.topics.dead_letters": "visits"},
        "kafka.topics.dead_letters",
        "a topic different from kafka.topics.visits",
        "",
    ),
    (name_topics("a_b.c", "a.b_c"), "kafka.topics.alerts", "('a_b.c'): Kafka treats . and _ as equal", ""),
    ({"kafka.topics.visits": "__visits"}, "kafka.topics.visits", "not starting with __", ""),
    (split(1, 2, 5), "service.shards", "a multiple of kafka.partitions.alerts (2)", "Set it to 4 or 6."),
    (split(1, 4, 3), "service.shards", "a multiple of kafka.partitions.alerts (4)", "Set it to 4."),
    (split(1, 4_095, 4_096), "service.shards", "(4095)", "Set it to 4095."),
    (split(1, 5_000), "service.shards", "(5000)", "Lower kafka.partitions.alerts to 16."),
    # Kafka's limit applies to visits + 2·alerts: the dead letter topic has as many partitions as alerts.
    (split(9_999, 1, 1), "kafka.partitions.visits", "at most 10000", ""),
    (split(10**12, 1, 1), "kafka.partitions.visits", "at most 10000", ""),
    (split(3_333, 3_334, 3_334), "kafka.partitions.alerts", "at most 10000", ""),
    (split(5_905, 2_048, 2_048), "kafka.partitions.visits", "at most 10000", ""),
    ({"service.name": "tokyo-release"}, "service.name", GROUP, "Rename it: a service "),
    ({"service.name": "-release"}, "service.name", GROUP, "Rename it: a service "),
    ({"service.name": "tokyo-0123456789abcdef"}, "service.name", GROUP, "Rename it: a service "),
    ({"service.name": "a-release-ffffffffffffffff"}, "service.name", GROUP, "Rename it: a service "),
    ({**TLS, "kafka.certificate_file": "client.pem"}, "kafka.key_file", "", ""),
    ({**TLS, "kafka.key_file": "client.key"}, "kafka.certificate_file", "", ""),
    # Half of an identity is refused, because the auditor would use that of the service.
    ({"kafka.security_protocol": "TLS"}, "kafka.security_protocol", "SSL", ""),
    ({"kafka.sasl_mechanism": "GSSAPI"}, "kafka.sasl_mechanism", "SCRAM", ""),
    ({"redis.ca_file": "ca.pem"}, "redis.ca_file", "", "rediss://"),
    ({"redis.url": "rediss://localhost", "redis.certificate_file": "x"}, "redis.key_file", "", ""),
    ({"redis.url": "rediss://localhost", "redis.key_file": "x"}, "redis.certificate_file", "", ""),
    ({"redis.sentinels": "a:1,b:2", "redis.url": "redis://primary:6379/0"}, "redis.url", "without a port", ""),
    ({"redis.sentinels": ["a:1"], "redis.cluster": True, "redis.url": "redis://a/0"}, "redis.sentinels", "", ""),
    ({"redis.sentinel_password_file": "s"}, "redis.sentinel_password_file", "no such key without redis.sentinels", ""),
    (
        {"redis.sentinels": ["a:1"], "redis.url": "redis://primary/0", "redis.sentinel_username": "monitor"},
        "redis.sentinel_password_file",
        "a file, because redis.sentinel_username is set",
        "",
    ),
    ({"redis.sentinels": ["a"], "redis.url": "redis://primary/0"}, "redis.sentinels.0", "a host and a port", ""),
    ({"redis.username": "a", "redis.url": "redis://b@localhost"}, "redis.username", "", ""),
    ({"redis.cluster": True, "redis.url": "redis://localhost/1"}, "redis.url", "", ""),
    ({"redis.cluster": True, "redis.url": "unix:///run/redis.sock"}, "redis.url", "", ""),
)
"""Changes, the one key that is refused, and parts of what is expected and of the remedy."""

ACCEPTED: Final[tuple[Mapping[str, Any], ...]] = (
    {"clock.release_delay": "1s1ms"},
    {"visits.accept_ahead": "0s"},
    {"visits.accept_ahead": AHEAD[0], **SECONDS},
    {"monitors.0.window": "1h"},
    {"monitors.1.reporting_horizon": "1h"},
    {"monitors.1.reporting_horizon": "90m"},
    {"monitors.1.timezone": ABSENT, "monitors.1.at": ["2026-01-05T18:00:00Z"]},
    name_topics("a_b-c", "a.b.c"),
    {"kafka.topics.visits": "_visits"},
    {"service.shards": 5},  # with one ledger partition, the default
    split(9_998, 1, 1),
    split(3_332, 3_334, 3_334),
    *({"service.name": name} for name in ("release", "tokyo-releases", "tokyo_release", "t-release-2")),
    {"service.name": "tokyo-0123456789abcde"},
    {**COMPLETE, "kafka.password_file": "kafka-password"},
    {**TLS, "kafka.certificate_file": "client.pem", "kafka.key_file": "client.key"},
    {"redis.ca_file": "ca.pem", "redis.url": "rediss://localhost"},
    {"redis.sentinels": "a:1,b:2", "redis.url": "redis://primary/0"},
    {"redis.certificate_file": "client.pem", "redis.key_file": "client.key", "redis.url": "rediss://localhost"},
)
"""Changes that no rule refuses."""


@pytest.mark.parametrize(("changes", "key", "expected", "remedy"), REFUSED)
def test_rule_refuses(refusal: Any, changes: Mapping[str, Any], key: str, expected: str, remedy: str) -> None:
    """Values that do not fit together are refused at one key, with what is expected and what to do."""
    problem = refusal(changes)[key]
    assert expected in problem.expected
    assert remedy in problem.remedy


@pytest.mark.parametrize("changes", ACCEPTED)
def test_rules_accept(load: Any, changes: Mapping[str, Any]) -> None:
    """Values at the limit of a rule are accepted."""
    assert load(changes)


@pytest.mark.promise(20)
def test_release_delay_fits_into_a_slot(refusal: Any, load: Any) -> None:
    """The release delay and two tolerances must be shorter than a slot."""
    # as_of(t)            + release_delay  + 2·tolerance       as_of(t + 1)
    # |-------------------|----------------|-------------------|   by then reading must be finished
    problem = refusal({"clock.release_delay": "59m58s"})["clock.release_delay"]
    assert "release_delay + 2·tolerance < slot (1h)" in problem.expected
    assert problem.remedy == "With a tolerance of 1s set it below 59m58s."
    assert load({"clock.release_delay": "59m57s999ms"})


def test_sasl_needs_complete_credentials(refusal: Any, load: Any) -> None:
    """SASL requires a mechanism, a user and a password, which may come from the environment."""
    problems = refusal(SASL)
    assert set(problems) == {"kafka.sasl_mechanism", "kafka.username", "kafka.password_file"}
    assert "LOCATION_MONITOR__KAFKA__PASSWORD" in problems["kafka.password_file"].remedy
    kafka = load(COMPLETE, PASSWORD).kafka
    assert kafka.uses_sasl
    assert kafka.uses_tls


def test_unused_credentials_are_refused(refusal: Any) -> None:
    """Credentials that the security protocol does not use are refused."""
    unused = {"sasl_mechanism": "PLAIN", "username": "monitor", "password_file": "p", "ca_file": "ca.pem"}
    problems = refusal({f"kafka.{name}": value for name, value in unused.items()})
    assert set(problems) == {f"kafka.{name}" for name in unused}
    assert "set kafka.security_protocol to SSL or SASL_SSL" in problems["kafka.ca_file"].remedy


def test_repeated_value_is_named(refusal: Any) -> None:
    """The message names the value that a list has twice."""
    at = ["2026-01-05T18:00:00Z", "2026-01-05T19:00:00+01:00"]
    assert refusal({"monitors.0.locations": ["a", "b", "a", "a"]})["monitors.0.locations"].value == "'a'"
    assert refusal({"monitors.1.at": at})["monitors.1.at"].value == at[0]
