"""Compute and print the consequences of a configuration in numbers, for `check`."""
