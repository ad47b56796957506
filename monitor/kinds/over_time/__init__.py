"""The people at each watched location within a window, at each tick (Algorithm 3)."""
