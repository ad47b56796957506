"""The main job before one's eyes: a simulated town, real servers, the whole service, and a recount at the end."""

from monitor.tools.demo.command import demo_command

__all__ = ["demo_command"]
