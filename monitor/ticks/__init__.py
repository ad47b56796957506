"""The release of answers: read the end offsets at each tick, count, decide, and append to the ledger."""
