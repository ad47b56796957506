"""`location-monitor convert`: recorded movements become a file of visits for `replay`, and a registry."""
