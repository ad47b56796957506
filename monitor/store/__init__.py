"""The facts about each location, with expiry: one interface, implemented in Redis."""
