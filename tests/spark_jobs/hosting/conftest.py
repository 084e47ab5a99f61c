"""What the tests of runs share: a queue that only notes what it is given."""

import pytest

from spark_jobs.hosting import runs


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """The runs that were handed to the report worker: their numbers, and their delays in seconds."""
    handed_over: list[tuple[int, float]] = []
    monkeypatch.setattr(runs, "enqueue", lambda run_id, delay_s=0: handed_over.append((run_id, delay_s)))
    return handed_over
