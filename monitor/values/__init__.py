"""Single values that people write: their checks, their forms in messages, and similar names."""
