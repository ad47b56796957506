"""The demo: run visits of a simulated town through the whole service on real servers, and recount them at the end."""

from monitor.operate.demo.run_demo import demo_command

__all__ = ["demo_command"]
