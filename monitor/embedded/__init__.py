"""Real servers without an installation: Apache Kafka and Valkey from wheels, as child processes on loopback ports."""

from monitor.embedded.jars import Report
from monitor.embedded.kafka import EmbeddedKafka, KafkaSettings, Quorum
from monitor.embedded.servers import Servers, start_servers
from monitor.embedded.valkey import EmbeddedValkey, ValkeySettings

__all__ = [
    "EmbeddedKafka",
    "EmbeddedValkey",
    "KafkaSettings",
    "Quorum",
    "Report",
    "Servers",
    "ValkeySettings",
    "start_servers",
]
