"""The planner: find T, ε, window, update rate and answers per window that meet targets (docs/rules.md, section 7)."""
