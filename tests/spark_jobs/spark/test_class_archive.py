"""The archive of Spark's classes over the starts of Java, with a Java that is a shell script."""

from pathlib import Path

import pytest

from spark_jobs.spark.class_archive import ClassArchive

WRITES = 'for option; do case $option in -XX:SharedArchiveFile=*) cat "$list" > "${option#*=}";; esac; done\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Java whose archive is its list of classes. Paths have a space."""
    java = tmp_path / "the home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\nlist=$(sed -n \'s/^"-XX:SharedClassListFile=\\(.*\\)"$/\\1/p\' "${{1#@}}")\n{WRITES}')
    java.chmod(0o755)
    return java.parent.parent


def started(home: Path, name: str) -> ClassArchive:
    own = home.parent / "scratch dir" / "local" / name
    own.mkdir(parents=True)
    return ClassArchive(home, own.parent.parent, own)


def first_life(home: Path) -> Path:
    """A Java that lists its classes and ends in order; returns the folder of the archives."""
    archive = started(home, "1")
    option, path = archive.options().strip('"').split("=", 1)
    assert option == "-XX:DumpLoadedClassList"
    archive.note_class_path("/a b/x.jar:/y.jar")
    Path(path).write_text("the classes")
    archive.keep_list()
    return archive.file.parent


def test_the_first_java_lists_the_second_writes_and_the_third_uses_the_archive(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = first_life(home)
    (arguments,) = folder.glob("*.args")
    assert arguments.read_text().splitlines()[-1] == '-cp "/a b/x.jar:/y.jar"'
    (folder / "classes-1.9.new").touch()
    second = started(home, "2")
    with monkeypatch.context() as patch:
        begun: list[ClassArchive] = []
        patch.setattr(ClassArchive, "write", lambda self: begun.append(self))
        assert (second.options(), begun) == ("", [second])
    writing = second.write()
    assert writing is not None and second.write() is None, "of two starts at once one writes it"
    assert writing.wait(120) == 0
    assert second.file.read_text() == "the classes"
    assert sorted(path.name for path in folder.iterdir()) == [second.file.name, "local"]
    third = started(home, "3")
    assert third.options().startswith(f'"-XX:SharedArchiveFile={third.file}" ')
    third.note_class_path("/a b/x.jar:/y.jar")
    third.keep_list()
    assert list((folder / "local").glob("*/*")) == []


def test_after_a_failure_the_next_java_lists_its_classes_anew(home: Path) -> None:
    folder = first_life(home)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    writing = started(home, "2").write()
    assert writing is not None
    writing.wait(120)
    assert [path.name for path in folder.iterdir()] == ["local"]
    assert "DumpLoadedClassList" in started(home, "3").options()


def test_a_list_of_a_java_that_was_killed_does_not_count(home: Path) -> None:
    killed = started(home, "1")
    killed.options()
    (killed.file.parent / "local" / "1" / "classes").touch()
    assert "DumpLoadedClassList" in started(home, "2").options()


def test_another_java_has_another_archive(home: Path) -> None:
    assert started(home, "1").file != ClassArchive(home / "other", home, home).file
