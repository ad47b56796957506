"""What is known about each location, with expiry: one interface, Redis and memory behind it."""
