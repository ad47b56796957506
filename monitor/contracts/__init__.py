"""The records that the service reads and writes, as pydantic models, and their published schemas."""
