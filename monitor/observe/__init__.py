"""How a running process is observed and tested: metrics, health, logs, where errors occurred, failpoints."""
