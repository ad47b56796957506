"""`location-monitor convert`: points, or an export of a case system, become a file of visits, and a registry."""
