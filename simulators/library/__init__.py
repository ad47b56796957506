"""Figures of the library's mechanisms next to the texts that they come from: `python -m simulators library`."""
