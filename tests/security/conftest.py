"""Real servers with TLS, users and access lists. Certificates are created here; passwords must appear in no output."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from monitor.kafka.connections import KafkaConnections
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from monitor.operate.servers.kafka import SECURE_LISTENER
from monitor.operate.servers.ports import LOOPBACK, ReservedPort
from monitor.operate.servers.secure_servers import make_node_settings
from tests.kit.certificates import write_certificate
from tests.kit.network import parse_address
from tests.security.guarded import (
    KAFKA_SECRET,
    OPERATOR_SECRET,
    SENDER,
    Certificates,
    GuardedRedis,
    Run,
    Site,
    list_users,
    make_topics,
)
from tests.security.rights import list_redis_rules
from tests.shared_kafka import SharedKafka

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    stranger.cert_pem.write_to_path(folder / "stranger.pem")
    issued = {
        "server": authority.issue_cert(LOOPBACK),
        "client": authority.issue_cert("city@example.org", common_name="city"),
        "impostor": stranger.issue_cert("city@example.org", common_name="city"),
    }
    for name, leaf in issued.items():
        write_certificate(folder, name, leaf)
    return Certificates(folder)


@pytest.fixture(scope="module")
def guarded_kafka(
    kafka: SharedKafka, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedKafka]:
    """The Kafka of `servers --secure`, on which users may also log in with the mechanism PLAIN. It has all users."""
    users = " ".join(f'user_{name}="{KAFKA_SECRET}"' for name in {user for user, _, _ in list_users()})
    secure = make_node_settings(certificates.server, Path(certificates.authority))
    plain = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{SECURE_LISTENER}plain.sasl.jaas.config": _PLAIN.format(users),
    }
    with EmbeddedKafka(replace(secure, properties={**secure.properties, **plain})) as server:
        make_topics(server, tmp_path_factory.mktemp("topics"))
        with closing(KafkaConnections((server.bootstrap_servers,)).create_admin()) as admin:
            admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, KAFKA_SECRET)
                    for user in ("city", SENDER)
                ]
            )
            admin.create_acls([right.acl(user, service) for user, rights, service in list_users() for right in rights])
        yield server


@pytest.fixture(scope="module")
def guarded_redis(redis_server: EmbeddedValkey, certificates: Certificates) -> Iterator[GuardedRedis]:
    """Debian's Redis with TLS, which requires client certificates, the default. The wheel's Valkey has no TLS."""
    certificate, key = certificates.of("server")
    port = ReservedPort()
    tls = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificates.authority)
    access = ("--tls-auth-clients", "yes", "--requirepass", OPERATOR_SECRET)
    binary = shutil.which("redis-server")
    settings = ValkeySettings(binary=Path(str(binary)), arguments=("--tls-port", str(port.number), *tls, *access))
    with EmbeddedValkey(settings) as server:
        guarded = GuardedRedis(port.number, parse_address(server.url)[1])
        guarded.set_user("city", *list_redis_rules())
        guarded.set_user("without-zadd", *list_redis_rules(), "-zadd")
        yield guarded
    port.release()


@pytest.fixture(scope="module")
def site(certificates: Certificates, guarded_kafka: EmbeddedKafka, guarded_redis: GuardedRedis) -> Site:
    return Site(certificates, guarded_kafka, guarded_redis)


@pytest.fixture(scope="module")
def start_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(*words: str, environ: Mapping[str, str] | None = None) -> Run:
        runs.append(Run(tmp_path_factory.mktemp("run") / "log", *words, environ=environ))
        return runs[-1]

    yield start
    for run in runs:
        run.end()
