"""Several instances on one host: `run --processes N` (docs/operations.md, "Several processes")."""
