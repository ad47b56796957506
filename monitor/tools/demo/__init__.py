"""The demo: visits of a simulated town go through the whole service on real servers and are recounted at the end."""

from monitor.tools.demo.command import demo_command

__all__ = ["demo_command"]
