"""Real servers without installation: run Apache Kafka and Valkey as child processes on loopback ports."""

from monitor.tools.servers.jars import Report
from monitor.tools.servers.kafka import EmbeddedKafka, NodeSettings, Quorum
from monitor.tools.servers.start_servers import Servers, start_servers
from monitor.tools.servers.valkey import EmbeddedValkey, ValkeySettings

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
