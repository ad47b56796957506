"""Figures that compare the library's mechanisms with the published ones: `python -m simulators library`."""
