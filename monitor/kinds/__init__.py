"""The parameters of the monitors, the facts that they need, and the sizes of their records."""
