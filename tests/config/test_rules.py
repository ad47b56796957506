"""Rules between values of the configuration."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.promise(20)
def test_release_delay_fits_into_a_slot(refusal: Any, load: Any) -> None:
    """The release delay and two tolerances must be shorter than a slot."""
    # as_of(t)            + release_delay  + 2·tolerance       as_of(t + 1)
    # |-------------------|----------------|-------------------|   by then reading must be finished
    problem = refusal({"clock.release_delay": "59m58s"})["clock.release_delay"]
    assert "release_delay + 2·tolerance < slot (1h)" in problem.expected
    assert problem.remedy == "With a tolerance of 1s set it below 59m58s."
    assert load({"clock.release_delay": "59m57s999ms"})


def test_tolerance_is_below_half_a_slot(refusal: Any) -> None:
    """A tolerance of half a slot leaves no valid release delay."""
    problem = refusal({"clock.tolerance": "30m", "clock.release_delay": "31m"})["clock.release_delay"]
    assert problem.remedy == "Lower clock.tolerance or lengthen clock.slot."


def test_release_delay_exceeds_the_tolerance(refusal: Any, load: Any) -> None:
    """The release delay must be longer than the tolerance."""
    problem = refusal({"clock.release_delay": "1s"})["clock.release_delay"]
    assert problem.expected.startswith("more than clock.tolerance (1s)")
    assert load({"clock.release_delay": "1s1ms"})


@pytest.mark.parametrize("key", ["visits.accept_ahead", "monitors.0.window"])
def test_durations_are_whole_numbers_of_slots(refusal: Any, key: str) -> None:
    """Windows and max lead must be whole numbers of slots."""
    problem = refusal({key: "90m"})[key]
    assert problem.expected == "a whole number of slots of 1h"
    assert problem.remedy == "Set it to 1h or 2h."


def test_accept_ahead_may_be_zero(load: Any) -> None:
    """accept_ahead may be 0s."""
    assert load({"visits.accept_ahead": "0s"}).visits.accept_ahead == 0


@pytest.mark.parametrize("key", ["monitors.0.window", "monitors.1.reporting_horizon"])
def test_windows_and_horizons_last_one_slot(refusal: Any, load: Any, key: str) -> None:
    """Windows and horizons must last at least one slot."""
    problem = refusal({key: "59m"})[key]
    assert (problem.value, problem.expected) == ("59m", "at least one slot (1h)")
    assert load({key: "1h"})


def test_horizon_may_end_within_a_slot(load: Any) -> None:
    """A horizon need not be a whole number of slots."""
    assert load({"monitors.1.reporting_horizon": "90m"})


def test_monitor_names_are_unique(refusal: Any) -> None:
    """Two monitors with the same name are refused."""
    problem = refusal({"monitors.1.name": "stations"})["monitors.1.name"]
    assert problem.expected == "a unique name, but monitors.0 has the same"


def test_watched_locations_are_unique(refusal: Any) -> None:
    """A monitor must not list a location twice."""
    problem = refusal({"monitors.0.locations": ["a", "b", "a", "a"]})["monitors.0.locations"]
    assert (problem.value, problem.expected) == ("'a'", "each location once")


@pytest.mark.parametrize("empty", [[], {}])
def test_over_time_needs_a_location(refusal: Any, empty: object) -> None:
    """An over_time monitor needs at least one location."""
    assert refusal({"monitors.0.locations": empty})["monitors.0.locations"].expected == "at least one location"


def test_at_times_needs_a_designated_time(refusal: Any) -> None:
    """An at_times monitor needs at least one designated time."""
    assert refusal({"monitors.1.at": []})["monitors.1.at"].expected == "at least one designated time"


def test_tiny_answer_epsilon_is_refused(refusal: Any) -> None:
    """The ε of each answer must be large enough to draw noise."""
    changes = {"monitors.0.epsilon": "1/1000000000000", "monitors.0.locations": ["a", "b"]}
    assert "for each answer of each location" in refusal(changes)["monitors.0.epsilon"].expected


def test_daily_times_need_a_time_zone(refusal: Any, absent: str) -> None:
    """Daily times without a time zone are refused."""
    problem = refusal({"monitors.1.timezone": absent})["monitors.1.timezone"]
    assert problem.expected == "the time zone of the daily times in `at`"


def test_instants_need_no_time_zone(load: Any, absent: str) -> None:
    """Instants do not need a time zone."""
    assert load({"monitors.1.timezone": absent, "monitors.1.at": ["2026-01-05T18:00:00Z"]}).monitors[1].timezone is None


@pytest.mark.parametrize(
    ("at", "repeated"),
    [
        (["18:00", "18:00:00"], "18:00:00"),
        (["2026-01-05T18:00:00Z", "2026-01-05T19:00:00+01:00"], "2026-01-05T18:00:00Z"),
        (["18:00", "2026-01-05T09:00:00Z"], "2026-01-05T09:00:00Z"),  # 18:00 in Tokyo
    ],
)
def test_designated_times_are_unique(refusal: Any, at: list[str], repeated: str) -> None:
    """Equal designated times are refused, also in different notations."""
    problem = refusal({"monitors.1.at": at})["monitors.1.at"]
    assert (problem.value, problem.expected) == (repeated, "each designated time once")


def test_topic_names_are_unique(refusal: Any) -> None:
    """Two roles with the same topic are refused."""
    problem = refusal({"kafka.topics.dead_letters": "visits"})["kafka.topics.dead_letters"]
    assert problem.expected == "a topic different from kafka.topics.visits"


def test_topic_names_differ_for_kafka(refusal: Any, load: Any) -> None:
    """Topic names that differ only in . and _ are refused, because Kafka refuses them."""
    problem = refusal({"kafka.topics.alerts": "a.b_c", "kafka.topics.visits": "a_b.c"})["kafka.topics.alerts"]
    assert problem.expected == "a topic different from kafka.topics.visits ('a_b.c'): Kafka treats . and _ as equal"
    assert load({"kafka.topics.alerts": "a.b.c", "kafka.topics.visits": "a_b-c"})


@pytest.mark.parametrize("name", ["__consumer_offsets", "__visits"])
def test_internal_topic_names_are_refused(refusal: Any, load: Any, name: str) -> None:
    """A topic name must not start with __, as the names of Kafka's internal topics do."""
    assert "not starting with __" in refusal({"kafka.topics.visits": name})["kafka.topics.visits"].expected
    assert load({"kafka.topics.visits": "_visits"})


@pytest.mark.parametrize(
    ("shards", "ledger_partitions", "remedy"),
    [
        (5, 2, "Set it to 4 or 6."),
        (3, 4, "Set it to 4."),
        (4_096, 4_095, "Set it to 4095."),
        (16, 5_000, "Lower kafka.partitions.alerts to 16."),
    ],
)
def test_shards_are_a_multiple_of_partitions(refusal: Any, shards: int, ledger_partitions: int, remedy: str) -> None:
    """The number of shards must be a multiple of the ledger partitions."""
    problem = refusal({"service.shards": shards, "kafka.partitions": {"visits": 1, "alerts": ledger_partitions}})[
        "service.shards"
    ]
    assert (problem.value, problem.remedy) == (str(shards), remedy)
    assert problem.expected.startswith(f"a multiple of kafka.partitions.alerts ({ledger_partitions})")


def test_one_partition_allows_any_shards(load: Any) -> None:
    """With one ledger partition, the default, any number of shards is valid."""
    assert load({"service.shards": 5}).kafka.partitions.alerts == 1


@pytest.mark.parametrize(
    ("visits", "alerts", "key"),
    [(9_999, 1, "visits"), (10**12, 1, "visits"), (3_333, 3_334, "alerts"), (5_905, 2_048, "visits")],
)
def test_partitions_are_limited(refusal: Any, load: Any, visits: int, alerts: int, key: str) -> None:
    """Kafka's limit applies to visits + 2·alerts partitions: the dead letter topic has as many as alerts."""
    changes = {"service.shards": min(alerts, 4_096)}
    problem = refusal(changes | {"kafka.partitions": {"visits": visits, "alerts": alerts}})[f"kafka.partitions.{key}"]
    assert "at most 10000" in problem.expected
    assert load(
        changes | {"kafka.partitions": {"visits": 10_000 - 2 * alerts if alerts < 5_000 else 1, "alerts": alerts}}
    )


@pytest.mark.parametrize("name", ["tokyo-release", "-release", "tokyo-0123456789abcdef", "a-release-ffffffffffffffff"])
def test_name_of_another_group_is_refused(refusal: Any, name: str) -> None:
    """A service name must not equal a consumer group of another service.

    The service `tokyo` uses the groups `tokyo`, `tokyo-release` and `tokyo-<fingerprint>`.
    """
    problem = refusal({"service.name": name})["service.name"]
    assert problem.expected == "a name that does not end in -release, or in - and 16 hexadecimal digits"
    assert problem.remedy.startswith("Rename it: a service ")


@pytest.mark.parametrize("name", ["release", "tokyo-releases", "tokyo_release", "tokyo-0123456789abcde", "t-release-2"])
def test_similar_service_names_are_valid(load: Any, name: str) -> None:
    """Names that only resemble a group of another service are valid."""
    assert load({"service.name": name}).service.name == name


def test_sasl_needs_complete_credentials(refusal: Any, load: Any) -> None:
    """SASL requires a mechanism, a user and a password."""
    problems = refusal({"kafka.security_protocol": "SASL_SSL"})
    assert set(problems) == {"kafka.sasl_mechanism", "kafka.username", "kafka.password_file"}
    assert "LOCATION_MONITOR__KAFKA__PASSWORD" in problems["kafka.password_file"].remedy
    complete = {
        "kafka.security_protocol": "SASL_SSL",
        "kafka.sasl_mechanism": "SCRAM-SHA-512",
        "kafka.username": "monitor",
    }
    assert load(complete | {"kafka.password_file": "kafka-password"}).kafka.uses_sasl
    assert load(complete, {"LOCATION_MONITOR__KAFKA__PASSWORD": "hunter2"}).kafka.uses_tls


def test_unused_credentials_are_refused(refusal: Any) -> None:
    """Credentials that the security protocol does not use are refused."""
    unused = {"sasl_mechanism": "PLAIN", "username": "monitor", "password_file": "p", "ca_file": "ca.pem"}
    problems = refusal({f"kafka.{name}": value for name, value in unused.items()})
    assert set(problems) == {f"kafka.{name}" for name in unused}
    assert "set kafka.security_protocol to SSL or SASL_SSL" in problems["kafka.ca_file"].remedy


def test_certificate_needs_its_key(refusal: Any, load: Any) -> None:
    """A certificate without its key, or a key without its certificate, is refused."""
    tls = {"kafka.security_protocol": "SSL"}
    assert "kafka.key_file" in refusal(tls | {"kafka.certificate_file": "client.pem"})
    assert "kafka.certificate_file" in refusal(tls | {"kafka.key_file": "client.key"})
    assert load(tls | {"kafka.certificate_file": "client.pem", "kafka.key_file": "client.key"})


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("username", "password_file"),
        ("password_file", "username"),
        ("certificate_file", "key_file"),
        ("key_file", "certificate_file"),
    ],
)
def test_auditor_identity_is_whole(refusal: Any, given: str, missing: str) -> None:
    """Half of an auditor's identity is refused, because the auditor would use that of the service."""
    assert list(refusal({f"auditor.{given}": "x"})) == [f"auditor.{missing}"]


def test_auditor_password_needs_a_user(refusal: Any) -> None:
    """A password of the auditor in the environment, without a user, is refused."""
    assert list(refusal({}, {"LOCATION_MONITOR__AUDITOR__PASSWORD": "hunter2"})) == ["auditor.username"]


@pytest.mark.parametrize(("key", "value"), [("security_protocol", "TLS"), ("sasl_mechanism", "GSSAPI")])
def test_unknown_protocols_are_refused(refusal: Any, key: str, value: str) -> None:
    """Unknown protocols and mechanisms are refused with the valid values."""
    assert "SSL" in (expected := refusal({f"kafka.{key}": value})[f"kafka.{key}"].expected) or "SCRAM" in expected


def test_redis_ca_file_needs_tls(refusal: Any, load: Any) -> None:
    """redis.ca_file requires a rediss:// URL."""
    assert "rediss://" in refusal({"redis.ca_file": "ca.pem"})["redis.ca_file"].remedy
    assert load({"redis.ca_file": "ca.pem", "redis.url": "rediss://localhost"})


def test_redis_user_is_set_once(refusal: Any) -> None:
    """A Redis user in both the URL and redis.username is refused."""
    assert "redis.username" in refusal({"redis.username": "a", "redis.url": "redis://b@localhost"})


@pytest.mark.parametrize("url", ["redis://localhost/1", "unix:///run/redis.sock"])
def test_cluster_needs_database_0(refusal: Any, url: str) -> None:
    """Redis Cluster requires database 0 and a network address."""
    assert "redis.url" in refusal({"redis.cluster": True, "redis.url": url})
