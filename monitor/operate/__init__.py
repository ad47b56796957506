"""Preflight checks, set-up of topics, metrics, health and logs."""
