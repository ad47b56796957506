"""The people at every location at designated times (Algorithm 4), and lower bounds."""
