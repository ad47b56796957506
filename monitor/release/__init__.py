"""Tick, barrier, decision, ledger: how answers come out."""
