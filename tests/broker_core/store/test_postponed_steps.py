import errno

import pytest

from broker_core.store import postponed_steps
from broker_core.store.postponed_steps import PostponedSteps


class Disk:
    """A disk with a list of what was written to it."""

    def __init__(self) -> None:
        self.error = 0
        self.written: list[int] = []

    def write(self, number: int) -> None:
        if self.error:
            raise OSError(self.error, "refused")
        self.written.append(number)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_steps_wait_in_order_until_there_is_space(error: int) -> None:
    disk, postponed = Disk(), PostponedSteps()
    assert postponed.run(lambda: disk.write(1)) and not postponed
    disk.error = error
    assert not postponed.run(lambda: disk.write(2)) and not postponed.run(lambda: disk.write(3))
    with pytest.raises(OSError, match="refused"):
        postponed.finish_step()
    assert postponed
    disk.error = 0
    postponed.finish_step()
    assert disk.written == [1, 2] and postponed  # one at a time: requests are answered between them
    postponed.finish_step()
    postponed.finish_step()
    assert disk.written == [1, 2, 3] and not postponed


def test_other_errors_are_not_postponed() -> None:
    disk, postponed = Disk(), PostponedSteps()
    disk.error = errno.EIO
    with pytest.raises(OSError, match="refused"):
        postponed.run(lambda: disk.write(1))
    assert not postponed


def test_the_number_of_postponed_steps_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed_steps, "STEPS_MAX", 1)
    disk, postponed = Disk(), PostponedSteps()
    disk.error = errno.ENOSPC
    assert not postponed.run(lambda: disk.write(1))
    with pytest.raises(OSError, match="refused"):
        postponed.run(lambda: disk.write(2))
