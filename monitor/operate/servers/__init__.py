"""Real servers without installation: run Apache Kafka and Valkey as child processes on loopback ports."""

from monitor.operate.servers.jars import Report
from monitor.operate.servers.kafka import EmbeddedKafka, NodeSettings, Quorum
from monitor.operate.servers.start_servers import Servers, start_servers
from monitor.operate.servers.valkey import EmbeddedValkey, ValkeySettings

__all__ = [
    "EmbeddedKafka",
    "EmbeddedValkey",
    "NodeSettings",
    "Quorum",
    "Report",
    "Servers",
    "ValkeySettings",
    "start_servers",
]
