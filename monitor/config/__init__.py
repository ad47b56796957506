"""The configuration and the registry of locations, both written by operators (docs/interface.md, section 3)."""
