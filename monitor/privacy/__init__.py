"""The privacy arithmetic, pure and without I/O: exact one-sided noise, Algorithms 3 and 4, what one person pays."""
