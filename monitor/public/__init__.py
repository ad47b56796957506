"""Public information: the slot grid, designated times, the parameters, instants and clocks."""
