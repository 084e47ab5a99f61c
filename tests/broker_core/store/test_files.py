import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_core.store.files import ReadOnlyFiles, RealFiles, is_tmpfs
from broker_core.store.mapped_file import MappedFile, OpenMaps
from tests.conftest import PROJECT


@pytest.fixture
def files() -> RealFiles:
    return RealFiles()


def test_a_map_reads_and_writes_the_file(files: RealFiles, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    assert files.map(path, 8192, create=False) is None
    mapping = files.map(path, 8192, create=True)
    assert mapping is not None
    files.allocate(path, 0, 8192)
    mapping.buffer[5000:5005] = b"hello"
    mapping.flush(5000, 5005)
    assert path.read_bytes()[5000:5005] == b"hello"
    assert files.size(path) == 8192


def test_a_short_file_is_extended_with_zeros(files: RealFiles, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    mapping = files.map(tmp_path / "file", 10, create=False)
    assert mapping is not None
    assert bytes(mapping.buffer[:]) == b"abc" + bytes(7)


def not_read_ahead(path: Path) -> list[tuple[int, int]]:
    """(start, end) of each part of a file's map for which the kernel was told not to read ahead."""
    parts, part = [], None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if words[-1] == str(path):
            low, high = (int(address, 16) for address in words[0].split("-"))
            part = (int(words[2], 16), int(words[2], 16) + high - low)
        elif words[0] == "VmFlags:":
            if part is not None and "rr" in words:
                parts.append(part)
            part = None
    return parts


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux only")
def test_only_the_part_that_is_written_next_is_not_read_ahead(files: RealFiles, tmp_path: Path) -> None:
    file = MappedFile(files, OpenMaps(4), tmp_path / "file", 0, 1 << 20)
    assert len(file.buffer) == 1 << 20 and not_read_ahead(file.path) == []
    file.allocate(100, 65_536)
    assert not_read_ahead(file.path) == [(0, 65_536 + 4096)]
    file.allocate(65_636 + 4096, 65_536)  # for a block that may begin up to 65,536 bytes earlier
    assert not_read_ahead(file.path) == [(0, 131_072 + 8192)]
    file.allocate(131_072 + 8192, 65_536)
    assert not_read_ahead(file.path) == [(65_536 + 4096, 196_608 + 8192)]
    again = MappedFile(files, OpenMaps(4), tmp_path / "file", 0, 1 << 20)
    file.unmap()
    again.allocate(900_000, 65_536)
    assert not_read_ahead(file.path) == [((900_000 - 131_072) // 4096 * 4096, 966_656)]
    again.allocate(1 << 20, 0)
    assert again.allocated == 1 << 20
    again.write(1 << 19, bytes(1 << 19))  # the end of the file is the end of what is brought into memory
    scattered = MappedFile(files, OpenMaps(4), tmp_path / "other", 0, 1 << 20)
    scattered.scattered = True
    scattered.allocate(100, 65_536)
    assert not_read_ahead(scattered.path) == [(0, 1 << 20)]


def test_holes_are_distinguished_from_data(files: RealFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"x")
    assert 0 <= files.data_start(path, 0) <= 1 << 19
    assert files.data_start(path, (1 << 19) + 1) <= (1 << 19) + 1
    assert files.data_start(path, (1 << 20) - 1) in (-1, (1 << 20) - 1)


def test_names_reading_and_replacing(files: RealFiles, tmp_path: Path) -> None:
    assert files.names(tmp_path / "none") == []
    assert files.read(tmp_path / "none") is None
    files.write(tmp_path / "b", b"1")
    files.write(tmp_path / "a", b"2")
    assert files.names(tmp_path) == ["a", "b"]
    assert files.names(tmp_path / "a") == []
    files.rename(tmp_path / "a", tmp_path / "b")
    files.sync_folder(tmp_path)
    assert files.read(tmp_path / "b") == b"2"
    files.remove(tmp_path / "b")
    files.remove(tmp_path / "b")
    files.make_folders(tmp_path / "x" / "y")
    files.remove_folder(tmp_path / "x")
    files.remove_folder(tmp_path / "x")
    assert files.names(tmp_path) == []


def test_other_processes_see_the_lock(files: RealFiles, tmp_path: Path) -> None:
    """A POSIX record lock, as a Java FileChannel takes it."""
    path = tmp_path / "lock"
    lock = files.lock(path, shared=False)
    assert lock is not None
    assert files.lock(path, shared=False) is None
    attempt = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1)"
    assert subprocess.run([sys.executable, "-c", attempt, path], stderr=subprocess.DEVNULL).returncode != 0
    lock.release()
    lock.release()
    assert subprocess.run([sys.executable, "-c", attempt, path]).returncode == 0


def test_a_lock_of_another_process_is_respected(files: RealFiles, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; f = open(sys.argv[1], 'r+'); "
            "fcntl.lockf(f, fcntl.LOCK_EX, 1); print('locked', flush=True); sys.stdin.read()",
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    assert files.lock(path, shared=True) is None
    holder.communicate()
    shared = files.lock(path, shared=True)
    assert shared is not None


def test_changes_to_a_read_only_view_stay_in_memory(files: RealFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    view = ReadOnlyFiles(files)
    for name, size in (("file", 8192), ("file", 16_384), ("fresh", 4096)):
        mapping = view.map(tmp_path / name, size, create=True)
        assert mapping is not None
        mapping.buffer[0:5] = b"hello"
        mapping.flush(0, 5)
    view.allocate(path, 0, 8192)
    view.make_folders(tmp_path / "folder")
    view.sync_folder(tmp_path)
    assert path.read_bytes() == bytes(8192)
    assert files.names(tmp_path) == ["file"]
    assert view.map(tmp_path / "none", 10, create=False) is None
    assert view.data_start(tmp_path / "none", 0) == -1
    for refused in (
        lambda: view.write(path, b""),
        lambda: view.append(path, b"x"),
        lambda: view.remove(path),
        lambda: view.rename(path, path),
        lambda: view.remove_folder(tmp_path),
    ):
        with pytest.raises(PermissionError, match="another broker"):
            refused()


def test_appended_data_follows_the_existing_content(files: RealFiles, tmp_path: Path) -> None:
    for data in (b"one", b"two", b""):
        files.append(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == b"onetwo"


def test_a_partial_append_to_a_full_disk_is_undone(
    files: RealFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.append(tmp_path / "file", b"before")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
        with pytest.raises(OSError, match="No space left"):
            files.append(tmp_path / "file", b"something")
    assert (tmp_path / "file").read_bytes() == b"before"
    files.append(tmp_path / "file", b" and after")
    assert (tmp_path / "file").read_bytes() == b"before and after"


def test_memory_and_disk_use_are_measured(files: RealFiles, tmp_path: Path) -> None:
    assert files.total_memory() > 1 << 20
    assert 0 < files.disk_used_percent(tmp_path) <= 100
    assert files.map_limit >= 64
    assert files.modified_ms(tmp_path) > 0


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tmpfs"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "glassmq-test", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a tmpfs cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


USE_EVERY_BYTE = """
import sys
from pathlib import Path
from broker_core.store.files import RealFiles
folder = Path(sys.argv[1])
files, maps = RealFiles(), []
try:
    for number in range(100):
        maps.append(files.map(folder / str(number), 1 << 20, create=True))
except OSError:
    (folder / "rest").touch()
for mapping in maps:
    assert sum(mapping.buffer[:]) == 0
    mapping.buffer[:] = b"x" * (1 << 20)
print(len(maps), sorted(path.name for path in folder.iterdir()))
"""


def test_a_map_on_a_full_tmpfs_is_refused_and_those_before_it_can_be_used(small_tmpfs: Path) -> None:
    """Otherwise reading or writing it would end the process by SIGBUS."""
    assert is_tmpfs(small_tmpfs.stat().st_dev)
    assert not is_tmpfs(Path("/proc").stat().st_dev)
    command = [sys.executable, "-c", USE_EVERY_BYTE, str(small_tmpfs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() in (
        "3 ['0', '1', '2', 'rest']",
        "4 ['0', '1', '2', '3', 'rest']",
    )


def test_space_is_reserved_for_a_whole_map_where_a_hole_takes_space(
    files: RealFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_core.store.files.is_tmpfs", lambda device: True)
    monkeypatch.setattr("broker_core.store.files.free_space", lambda descriptor: 1 << 30)
    mapping = files.map(tmp_path / "file", 1 << 20, create=True)
    assert mapping is not None
    assert (tmp_path / "file").stat().st_blocks * 512 >= 1 << 20

    def refuse(descriptor: int, start: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space"):
        files.map(tmp_path / "new", 1 << 20, create=True)
    assert not (tmp_path / "new").exists()
    with pytest.raises(OSError, match="No space"):
        files.map(tmp_path / "file", 2 << 20, create=False)
    assert (tmp_path / "file").stat().st_size == 1 << 20
