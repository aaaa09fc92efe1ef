"""A disk of a few megabytes under a folder of a lake: it can be full, or turn read-only.

A file system in memory. Who may mount one, Linux decides: root does not suffice everywhere.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

# What the operating system says, in the words of Java too; or what commands make of that.
FULL: Final = ("No space left on device", "is full: make room")
READ_ONLY: Final = ("Read-only file system", "is read-only", "the lake's storage can't be written")
_ROOMY: Final = "size=1g,rw"
_PAGE: Final = 4096


class Disk:
    """The disk under a folder, with what the folder had in it."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder

    def leave_free(self, size: int) -> None:
        """Room for so many bytes more, to the next 4 kB."""
        room = os.statvfs(self._folder)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize
        self._remount(f"size={(used + size) // _PAGE * _PAGE},rw")

    def turn_read_only(self, patience: float = 0.0) -> None:
        """Nothing more is written. Raises ``CalledProcessError`` if a file is being written for so
        many seconds.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._remount("ro")
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise

    def make_well(self) -> None:
        """There is room again."""
        self._remount(_ROOMY)

    def _remount(self, options: str) -> None:
        _mount("-o", f"remount,{options}", str(self._folder))


def is_told(trouble: Sequence[str], said: str) -> bool:
    """Whether a command has said so of a disk, in any words."""
    return any(each in said for each in trouble)


@cache
def can_mount() -> bool:
    """Whether this process may mount such a disk: found out by mounting one."""
    with TemporaryDirectory() as folder:
        try:
            _mount("-t", "tmpfs", "-o", "size=4k", "lakehouse-test", folder)
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run(["umount", folder], check=True)
        return True


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """A disk of its own under the folder, which afterwards has what it had before."""
    copy = folder.with_name(f"{folder.name}.before")
    shutil.copytree(folder, copy)
    _mount("-t", "tmpfs", "-o", _ROOMY, "lakehouse-test", str(folder))
    try:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        yield Disk(folder)
    finally:
        shutil.rmtree(copy)
        # Its JVM may have a file open still.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
