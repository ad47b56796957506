"""Rules between values."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_tick_must_be_read_before_the_next_slot_ends(refusal: Any, load: Any) -> None:
    # as_of(t)            + release_delay  + 2·tolerance       as_of(t + 1)
    # |-------------------|----------------|-------------------|   the read is done by then, clocks' errors included
    problem = refusal({"clock.release_delay": "59m58s"})["clock.release_delay"]
    assert "release_delay + 2·tolerance < slot (1h)" in problem.expected
    assert problem.remedy == "With a tolerance of 1s set it below 59m58s."
    assert load({"clock.release_delay": "59m57s999ms"})


def test_a_tolerance_of_half_a_slot_leaves_no_release_delay(refusal: Any) -> None:
    problem = refusal({"clock.tolerance": "30m", "clock.release_delay": "31m"})["clock.release_delay"]
    assert problem.remedy == "Lower clock.tolerance or lengthen clock.slot."


def test_answers_leave_later_than_reading_begins(refusal: Any, load: Any) -> None:
    problem = refusal({"clock.release_delay": "1s"})["clock.release_delay"]
    assert problem.expected.startswith("more than clock.tolerance (1s)")
    assert load({"clock.release_delay": "1s1ms"})


@pytest.mark.parametrize("key", ["visits.accept_ahead", "monitors.0.window"])
def test_what_is_counted_in_slots_is_a_whole_number_of_them(refusal: Any, key: str) -> None:
    problem = refusal({key: "90m"})[key]
    assert problem.expected == "a whole number of slots of 1h"
    assert problem.remedy == "The nearest: 1h or 2h."


def test_visits_may_have_to_be_of_the_current_slot(load: Any) -> None:
    assert load({"visits.accept_ahead": "0s"}).visits.accept_ahead == 0


@pytest.mark.parametrize("key", ["monitors.0.window", "monitors.1.reporting_horizon"])
def test_windows_and_horizons_last_a_slot_at_least(refusal: Any, load: Any, key: str) -> None:
    problem = refusal({key: "59m"})[key]
    assert (problem.value, problem.expected) == ("59m", "at least one slot (1h)")
    assert load({key: "1h"})


def test_a_horizon_need_not_be_a_whole_number_of_slots(load: Any) -> None:
    assert load({"monitors.1.reporting_horizon": "90m"})


def test_monitors_have_names_of_their_own(refusal: Any) -> None:
    problem = refusal({"monitors.1.name": "stations"})["monitors.1.name"]
    assert problem.expected == "a name of its own, but monitors.0 has it too"


def test_a_location_is_watched_once_by_a_monitor(refusal: Any) -> None:
    problem = refusal({"monitors.0.locations": ["a", "b", "a", "a"]})["monitors.0.locations"]
    assert (problem.value, problem.expected) == ("'a'", "each location once")


@pytest.mark.parametrize("nothing", [[], {}])
def test_an_over_time_monitor_watches_something(refusal: Any, nothing: object) -> None:
    assert refusal({"monitors.0.locations": nothing})["monitors.0.locations"].expected == "at least one location"


def test_an_at_times_monitor_has_a_designated_time(refusal: Any) -> None:
    assert refusal({"monitors.1.at": []})["monitors.1.at"].expected == "at least one designated time"


def test_noise_can_be_drawn_at_the_share_of_each_answer(refusal: Any) -> None:
    changes = {"monitors.0.epsilon": "1/1000000000000", "monitors.0.locations": ["a", "b"]}
    assert "for each answer of each location" in refusal(changes)["monitors.0.epsilon"].expected


def test_daily_times_need_a_time_zone(refusal: Any, absent: str) -> None:
    problem = refusal({"monitors.1.timezone": absent})["monitors.1.timezone"]
    assert problem.expected == "the time zone of the daily times in `at`"


def test_instants_need_no_time_zone(load: Any, absent: str) -> None:
    assert load({"monitors.1.timezone": absent, "monitors.1.at": ["2026-01-05T18:00:00Z"]}).monitors[1].timezone is None


@pytest.mark.parametrize(
    ("at", "repeated"),
    [
        (["18:00", "18:00:00"], "18:00:00"),
        (["2026-01-05T18:00:00Z", "2026-01-05T19:00:00+01:00"], "2026-01-05T18:00:00Z"),
        (["18:00", "2026-01-05T09:00:00Z"], "2026-01-05T09:00:00Z"),  # 18:00 in Tokyo
    ],
)
def test_a_designated_time_is_given_once(refusal: Any, at: list[str], repeated: str) -> None:
    problem = refusal({"monitors.1.at": at})["monitors.1.at"]
    assert (problem.value, problem.expected) == (repeated, "each designated time once")


def test_topics_differ(refusal: Any) -> None:
    problem = refusal({"kafka.topics.dead_letters": "visits"})["kafka.topics.dead_letters"]
    assert problem.expected == "a topic of its own, but kafka.topics.visits is it too"


def test_topics_differ_to_kafka_too(refusal: Any, load: Any) -> None:
    """Kafka makes no two topics whose names differ in . and _ alone."""
    problem = refusal({"kafka.topics.alerts": "a.b_c", "kafka.topics.visits": "a_b.c"})["kafka.topics.alerts"]
    assert problem.expected == "a topic that Kafka can tell from kafka.topics.visits ('a_b.c'): to it . and _ are one"
    assert load({"kafka.topics.alerts": "a.b.c", "kafka.topics.visits": "a_b-c"})


@pytest.mark.parametrize("name", ["__consumer_offsets", "__visits"])
def test_a_topic_is_none_of_kafkas_own(refusal: Any, load: Any, name: str) -> None:
    """Kafka's own topics begin with two underscores; writing to them breaks groups and transactions."""
    assert "not beginning with __" in refusal({"kafka.topics.visits": name})["kafka.topics.visits"].expected
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
def test_the_shards_are_a_multiple_of_the_output_partitions(
    refusal: Any, shards: int, ledger_partitions: int, remedy: str
) -> None:
    """Else `topics --create` would make the topics and begin no ledger."""
    problem = refusal({"service.shards": shards, "kafka.partitions": {"visits": 1, "alerts": ledger_partitions}})[
        "service.shards"
    ]
    assert (problem.value, problem.remedy) == (str(shards), remedy)
    assert problem.expected.startswith(f"a multiple of kafka.partitions.alerts ({ledger_partitions})")


def test_any_shards_go_with_one_output_partition(load: Any) -> None:
    """One is what there is without kafka.partitions."""
    assert load({"service.shards": 5}).kafka.partitions.alerts == 1


@pytest.mark.parametrize(
    ("visits", "alerts", "key"),
    [(9_999, 1, "visits"), (10**12, 1, "visits"), (3_333, 3_334, "alerts"), (5_905, 2_048, "visits")],
)
def test_kafka_makes_no_more_than_10_000_partitions_at_once(
    refusal: Any, load: Any, visits: int, alerts: int, key: str
) -> None:
    """The dead letters' topic has as many as the output."""
    changes = {"service.shards": min(alerts, 4_096)}
    problem = refusal(changes | {"kafka.partitions": {"visits": visits, "alerts": alerts}})[f"kafka.partitions.{key}"]
    assert "at most 10000" in problem.expected
    assert load(
        changes | {"kafka.partitions": {"visits": 10_000 - 2 * alerts if alerts < 5_000 else 1, "alerts": alerts}}
    )


@pytest.mark.parametrize("name", ["tokyo-release", "-release", "tokyo-0123456789abcdef", "a-release-ffffffffffffffff"])
def test_a_service_has_no_name_that_is_another_services_group(refusal: Any, name: str) -> None:
    """`tokyo` reads as the group `tokyo`, releases as `tokyo-release`, and changes as `tokyo-<fingerprint>`."""
    problem = refusal({"service.name": name})["service.name"]
    assert problem.expected == "a name that does not end in -release, or in - and 16 hexadecimal digits"
    assert problem.remedy.startswith("Rename it: a service ")


@pytest.mark.parametrize("name", ["release", "tokyo-releases", "tokyo_release", "tokyo-0123456789abcde", "t-release-2"])
def test_names_that_are_no_group_of_another_service_are_taken(load: Any, name: str) -> None:
    """The whole ending counts."""
    assert load({"service.name": name}).service.name == name


def test_sasl_needs_a_mechanism_a_user_and_a_password(refusal: Any, load: Any) -> None:
    problems = refusal({"kafka.security_protocol": "SASL_SSL"})
    assert set(problems) == {"kafka.sasl_mechanism", "kafka.username", "kafka.password_file"}
    assert "LOCATION_MONITOR__KAFKA__PASSWORD" in problems["kafka.password_file"].remedy
    whole = {
        "kafka.security_protocol": "SASL_SSL",
        "kafka.sasl_mechanism": "SCRAM-SHA-512",
        "kafka.username": "monitor",
    }
    assert load(whole | {"kafka.password_file": "kafka-password"}).kafka.uses_sasl
    assert load(whole, {"LOCATION_MONITOR__KAFKA__PASSWORD": "hunter2"}).kafka.uses_tls


def test_users_and_certificates_that_would_not_be_used_are_refused(refusal: Any) -> None:
    unused = {"sasl_mechanism": "PLAIN", "username": "monitor", "password_file": "p", "ca_file": "ca.pem"}
    problems = refusal({f"kafka.{name}": value for name, value in unused.items()})
    assert set(problems) == {f"kafka.{name}" for name in unused}
    assert "set kafka.security_protocol to SSL or SASL_SSL" in problems["kafka.ca_file"].remedy


def test_a_certificate_and_its_key_come_together(refusal: Any, load: Any) -> None:
    tls = {"kafka.security_protocol": "SSL"}
    assert "kafka.key_file" in refusal(tls | {"kafka.certificate_file": "client.pem"})
    assert "kafka.certificate_file" in refusal(tls | {"kafka.key_file": "client.key"})
    assert load(tls | {"kafka.certificate_file": "client.pem", "kafka.key_file": "client.key"})


@pytest.mark.parametrize(("key", "value"), [("security_protocol", "TLS"), ("sasl_mechanism", "GSSAPI")])
def test_protocols_and_mechanisms_are_among_those_known(refusal: Any, key: str, value: str) -> None:
    assert "SSL" in (expected := refusal({f"kafka.{key}": value})[f"kafka.{key}"].expected) or "SCRAM" in expected


def test_authorities_for_redis_need_tls(refusal: Any, load: Any) -> None:
    assert "rediss://" in refusal({"redis.ca_file": "ca.pem"})["redis.ca_file"].remedy
    assert load({"redis.ca_file": "ca.pem", "redis.url": "rediss://localhost"})


def test_redis_has_one_user(refusal: Any) -> None:
    assert "redis.username" in refusal({"redis.username": "a", "redis.url": "redis://b@localhost"})


@pytest.mark.parametrize("url", ["redis://localhost/1", "unix:///run/redis.sock"])
def test_a_cluster_has_one_database_and_a_network_address(refusal: Any, url: str) -> None:
    assert "redis.url" in refusal({"redis.cluster": True, "redis.url": url})
