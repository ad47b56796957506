"""From Kafka to windows: consume, decode, accept or refuse, write."""
