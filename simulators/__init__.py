"""People who move and fall ill, and recorded movements, as files that the service can replay. Not in the wheel."""
