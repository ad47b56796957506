"""The benchmark: each line measures one kind of work together with a peer or a floor, and compares it with a goal."""
