"""The commands, one module each. The module and its click command have the command's name."""
