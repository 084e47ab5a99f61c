import resource

import pytest

from bridge.open_files import (
    OPEN_FILES,
    most_connections,
    open_files_limit,
    open_files_warning,
    raise_open_files_limit,
)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process's limits, soft and hard, as the functions see and set them."""
    current = [1024, 1 << 20]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(current))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: current.__setitem__(slice(None), wanted))
    return current


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 1 << 20, OPEN_FILES),
        (1024, 4096, 4096),
        (1 << 20, 1 << 20, 1 << 20),
        (1024, resource.RLIM_INFINITY, OPEN_FILES),
        (resource.RLIM_INFINITY,) * 3,
    ],
)
def test_the_limit_is_raised_to_the_maximum_and_never_lowered(
    limits: list[int], soft: int, hard: int, raised: int
) -> None:
    limits[:] = soft, hard
    raise_open_files_limit()
    assert limits == [raised, hard]


def test_connections_leave_room_for_other_files(limits: list[int]) -> None:
    assert open_files_limit() == 1024
    assert most_connections(20_000) == 1024 - 256
    assert most_connections(20_000, own_files=512) == 512
    assert most_connections(100) == 100
    limits[0] = 64
    assert most_connections(20_000) == 1
    limits[0] = resource.RLIM_INFINITY
    assert most_connections(20_000) == 20_000


def test_a_limit_that_allows_few_connections_is_worth_a_warning(limits: list[int]) -> None:
    limits[0] = 256
    warning = open_files_warning(20_000)
    assert "only 256 files" in warning and "at most 1 web connection is" in warning and "40256" in warning
    limits[0] = 1200
    assert "at most 944 web connections are" in open_files_warning(20_000)
    for soft, wanted in ((1256, 20_000), (400, 100), (resource.RLIM_INFINITY, 20_000)):
        limits[0] = soft
        assert open_files_warning(wanted) == ""
