"""How a running process is observed and tested: metrics, health, logs, spans, where errors occurred, failpoints."""
