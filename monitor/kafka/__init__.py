"""Kafka: connections, TLS, topics, consumer groups and their members."""
