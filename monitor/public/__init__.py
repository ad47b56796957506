"""What everybody may know: the slot grid, designated times, the parameters, instants and clocks."""
