"""Files and folders that are named for the state of the sources that they were made of.

Each upgrade makes new ones. Those before are of no use to it, but may be to another version that runs at the same time.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

UNUSED_S = 30 * 24 * 3600
"""What nobody has taken up for so long is not used any more."""


def take_up(path: Path, like: str) -> None:
    """Note that ``path`` is used from now on, and remove those beside it, named ``like`` it, that are not any more.

    What cannot be removed stays.
    """
    with suppress(OSError):
        os.utime(path)
        now = path.stat().st_mtime  # the clock of the machine that has the disk, which others may share
        for other in path.parent.glob(like):
            if other != path and now - other.lstat().st_mtime > UNUSED_S:
                remove(other)


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that goes."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
