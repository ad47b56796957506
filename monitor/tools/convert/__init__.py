"""`location-monitor convert`: convert recorded movements to a file of visits for `replay`, and a registry."""
