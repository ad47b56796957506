"""The bases of all kinds, and what several kinds share: listed places, designated times."""
