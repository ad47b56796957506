"""The algorithms of the OSDP paper's experiments, with real-valued noise, and the measures of its figures."""
