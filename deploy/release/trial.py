"""The trial of a wheel: a new environment that has only the wheel and its locked dependencies runs `demo`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

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
    """Install a wheel with the locked files of its dependencies, and return the path of its command."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)  # noqa: S603  # fixed words
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    wanted = folder / "requirements.txt"
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wanted.write_text(f"location-monitor[{EXTRA}] @ {wheel.as_uri()} --hash=sha256:{sha256}\n", encoding="utf-8")
    locked = ["--only-binary", ":all:", "--require-hashes", "--constraint", str(root / "requirements.lock")]
    subprocess.run([*pip, "install", *locked, "--requirement", str(wanted)], check=True)  # noqa: S603  # fixed words
    return folder / "bin" / "location-monitor"
