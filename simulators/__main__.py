"""Run `python -m simulators`."""

from simulators.cli import cli

if __name__ == "__main__":
    cli(prog_name="python -m simulators")
