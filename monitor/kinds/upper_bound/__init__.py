"""A certain upper bound of the people at each watched location, at the end of each bucket."""
