"""From Kafka to the store: consume, decode, accept or refuse, write."""
