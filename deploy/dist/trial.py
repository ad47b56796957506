"""The trial of a wheel: a new environment that has only the wheel and its locked dependencies runs `demo`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.dist.sbom import read_lock

LOCK: Final = "requirements.lock"
ALWAYS: Final = "python_version >= '3'"
EXTRA: Final = "embedded"  # the servers that `demo` starts


def try_wheel(root: Path, wheel: Path) -> None:
    """Install a wheel in a new environment, and run `demo` in an empty folder.

    Raises:
        subprocess.CalledProcessError: a step failed; its output is on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="location-monitor-trial-") as name:
        folder = Path(name)
        program = install(root, wheel, folder / "venv")
        # Only these variables: nothing of the checkout's environment can replace a part of the wheel.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "COLUMNS": "120"}
        subprocess.run([program, "demo"], cwd=folder, env=environment, check=True)  # noqa: S603  # the wheel's command


def install(root: Path, wheel: Path, folder: Path) -> Path:
    """Install a wheel with the locked versions of its dependencies, and return the path of its command."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)  # noqa: S603  # fixed words
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    # The pins have no hashes: with hashes, pip would refuse the wheel, whose own requirements are ranges.
    locked = folder / "constraints.txt"
    pins = read_lock(root / LOCK)
    locked.write_text(
        "".join(f"{pin.name}=={pin.version} ; {pin.marker or ALWAYS}\n" for pin in pins), encoding="utf-8"
    )
    wanted = ["--only-binary", ":all:", "--constraint", str(locked), f"{wheel}[{EXTRA}]"]
    subprocess.run([*pip, "install", *wanted], check=True)  # noqa: S603  # fixed words
    return folder / "bin" / "location-monitor"
