"""The facts about each location, with expiry: one interface, with implementations in Redis and in memory."""
