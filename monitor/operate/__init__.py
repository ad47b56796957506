"""What operators need: topics, metrics, health, logs."""
