"""The bases of the audit of each kind, and what several kinds share: listed places, designated times."""
