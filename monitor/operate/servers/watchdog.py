"""A small process that ends a server and removes its folder when the program that started both has ended in any way.

The operating system closes the program's end of the pipe even after SIGKILL. This process runs in a separate session,
so Ctrl-C in a terminal does not reach it. It uses only the standard library and is run by its path, so it starts fast.

Usage: watchdog.py FOLDER OWNER GRACE_SECONDS

    OWNER: the program's process id; GRACE_SECONDS: from SIGTERM to SIGKILL
    standard input: a line with the process id of each server that the program starts, and 0 after it has ended
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

_CHECK_SECONDS = 0.5


def wait_for_owner(owner: int) -> int:
    """Wait until the owner has ended, and return the process id of its last server; 0 if that has ended.

    The parent's process id is checked too, because a process that the owner forked may keep a copy of the pipe open. It
    is checked before the pipe is read: what the owner wrote is then read even if it ended before this process ran.
    """
    server, is_alive = 0, True
    while is_alive:
        is_alive = os.getppid() == owner
        if select.select([sys.stdin], [], [], _CHECK_SECONDS if is_alive else 0)[0]:
            data = os.read(sys.stdin.fileno(), 65536)
            if not data:
                break
            server = int(data.split()[-1])
    return server


def end(server: int, grace_seconds: float) -> None:
    """End a server that runs, even if it is paused or hangs."""
    deadline = time.monotonic() + grace_seconds
    with contextlib.suppress(ProcessLookupError):
        # A stopped process receives SIGTERM only after SIGCONT.
        for number in (signal.SIGTERM, signal.SIGCONT):
            os.kill(server, number)
        while time.monotonic() < deadline:
            if has_ended(server):
                return
            time.sleep(0.05)
        os.kill(server, signal.SIGKILL)


def has_ended(process: int) -> bool:
    """Return whether a process has ended. Its parent may not have collected it yet: then Linux lists it as a zombie.

    Raises:
        ProcessLookupError: there is no such process.
    """
    os.kill(process, 0)
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # another system than Linux
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def main() -> None:
    """Wait for the owner's end."""
    folder, owner, grace_seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    server = wait_for_owner(owner)
    if server:
        end(server, grace_seconds)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
