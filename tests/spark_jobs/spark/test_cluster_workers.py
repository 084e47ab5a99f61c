"""What a task finds where it runs, and what is said of it."""

import socket
import sys

import pytest

from spark_jobs.spark import cluster_workers
from spark_jobs.spark.cluster_workers import PACKAGES, Worker, complaint, look_around, what_is_missing


@pytest.fixture
def here() -> Worker:
    return Worker.decode(look_around())


def test_what_is_here_is_found(here: Worker) -> None:
    assert (here.host, here.complaint) == (socket.gethostname(), "")
    assert tuple(dict(here.packages)) == PACKAGES
    assert all(dict(here.packages).values())
    assert Worker.decode(here.encode()) == here


def test_workers_that_lack_something_are_named(here: Worker, caplog: pytest.LogCaptureFixture) -> None:
    assert what_is_missing([here]) == ""
    bare = Worker(
        "host-b", tuple((name, "" if name in ("numpy", "pyarrow") else found) for name, found in here.packages)
    )
    assert "(host-b: pyarrow is missing, numpy is missing)" in what_is_missing([here, bare, bare])
    older = Worker("host-c", tuple((name, "1.0") for name, _ in here.packages))
    assert what_is_missing([older]) == ""
    assert "host-c has pyarrow 1.0" in caplog.text


def test_a_numpy_that_is_too_new_for_its_numba_is_told_of(here: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    refused = complaint()
    assert "numba" in refused
    assert f"(host-b: {refused})" in what_is_missing([here, here._replace(host="host-b", complaint=f"{refused}.")])
    monkeypatch.setattr(cluster_workers, "installed", lambda package: "")
    assert complaint() == "", "it is said to be missing already"
