"""The composition of the service: its parts, the checks before the start, and what happens after a change."""
