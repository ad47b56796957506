"""What the parts agree on: the shape of each record, the slot grid, designated times, parameters, clocks."""
