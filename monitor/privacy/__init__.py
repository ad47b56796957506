"""The privacy arithmetic of the service: exact one-sided noise, Algorithms 3 and 4, hot spots, and payments. No I/O."""
