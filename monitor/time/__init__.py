"""Instants, slots, designated times, and clocks."""
