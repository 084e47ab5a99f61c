"""Steps of recovery that wait for disk space, so that a full disk keeps nobody from reading."""

from collections import deque
from collections.abc import Callable

from broker_core.store.files import DISK_FULL

STEPS_MAX = 10_000
"""A recovery that would postpone more steps fails instead."""


class PostponedSteps:
    """The steps that a full disk refused, in order. A step either does its work or raises and changes nothing."""

    def __init__(self) -> None:
        self._steps: deque[Callable[[], None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._steps)

    def run(self, step: Callable[[], None]) -> bool:
        """Run a step now, or postpone it when the disk is full; returns whether it ran. Raises other OSErrors."""
        try:
            step()
        except OSError as error:
            if error.errno not in DISK_FULL or len(self._steps) >= STEPS_MAX:
                raise
            self._steps.append(step)
            return False
        return True

    def finish_step(self) -> None:
        """Run the next postponed step, if there is one. OSError while the disk is still full.

        One at a time, because a step may copy and sync 64 MiB while requests wait.
        """
        if self._steps:
            self._steps[0]()
            self._steps.popleft()
