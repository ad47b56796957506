"""The audit of each kind of monitors: its terms, its records, its recount, and the check of its answers."""
