"""The records of the topics: the shape of each one, how it is written and read, and the published schemas."""
