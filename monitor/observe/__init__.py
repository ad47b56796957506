"""How a running process is observed and tested: metrics, health, logs, spans, places of errors, failpoints."""
