"""Write what a publisher discloses about a configuration: `location-monitor register`.

publisher   who publishes, which the configuration does not say
figures     the figures of `check`, and what each monitor asks, in words
entry       the entry for a registry of differential privacy deployments
pages       the public notice and the draft of an impact assessment, from `templates/`
options     the options that say who publishes
command     write the three files
"""

from monitor.tools.register.command import register_command
from monitor.tools.register.options import add_publisher_options, read_publisher
from monitor.tools.register.publisher import Publisher

__all__ = ["Publisher", "add_publisher_options", "read_publisher", "register_command"]
