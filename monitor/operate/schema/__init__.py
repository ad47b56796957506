"""`location-monitor schema`: the published schemas, built from the definitions of the records, and their examples."""
