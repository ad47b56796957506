"""The ledger, which is the output topic: reader, writers, state, signed log, and what it says about payments."""
