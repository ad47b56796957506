"""Simulated towns, load, benchmarks, and the experiments of the papers. They are not in the wheel."""
