"""Single values that people write or read: their checks, their words, and similar names."""
