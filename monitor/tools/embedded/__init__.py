"""Real servers without installation: run Apache Kafka and Valkey as child processes on loopback ports."""

from monitor.tools.embedded.jars import Report
from monitor.tools.embedded.kafka import EmbeddedKafka, NodeSettings, Quorum
from monitor.tools.embedded.servers import Servers, start_servers
from monitor.tools.embedded.valkey import EmbeddedValkey, ValkeySettings

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
