"""One-sided noise for privacy under addition of a record alone, or under removal of a record alone."""
