"""What comes in and goes out, as pydantic models, and the schemas made from them."""
