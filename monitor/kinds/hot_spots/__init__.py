"""The locations with the most people at designated times."""
