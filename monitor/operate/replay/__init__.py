"""Replay a file of visits through the whole service, on a simulated public clock."""
