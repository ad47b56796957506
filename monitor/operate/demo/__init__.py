"""The demo: run visits of a simulated town through the whole service on real servers, and recount them at the end."""
