"""Seeded defects, each of which a test must find: ``make mutants``. ``mutants.toml`` lists them.

    python -m tests.mutants                 # all of them
    python -m tests.mutants crc fanout      # those whose name contains one of these words

Each mutant replaces one piece of source text in a temporary copy of the tree and runs the tests that are named for it.
A mutant is killed when one of those tests fails. The run fails when a mutant survives, when it does not fit the tree
any more (``misfit``; ``make check`` looks too), or when a named test fails without any mutant.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import msgspec

PROJECT = Path(__file__).resolve().parent.parent
WORKERS = 2
TESTS_FAILED = 1
"""pytest's exit code; any other one but 0 says that the tests did not run."""
LONGEST_RUN_S = 600


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A defect: ``new`` in the place of ``old``, which occurs once in ``file``. ``tests`` are pytest's arguments."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]


class Mutants(msgspec.Struct, forbid_unknown_fields=True):
    """The file ``mutants.toml``."""

    mutant: list[Mutant]


def load_mutants() -> list[Mutant]:
    """The mutants of ``mutants.toml``, in its order."""
    return msgspec.toml.decode((PROJECT / "tests" / "mutants.toml").read_bytes(), type=Mutants).mutant


class Tree:
    """A copy of the tracked files, with this tree's .venv."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (PROJECT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, folder / name)
        (folder / ".venv").symlink_to(PROJECT / ".venv")

    def run(self, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run tests to the first failure. ``CI`` makes Hypothesis try the same examples each time."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        return subprocess.run(
            command,
            cwd=self._folder,
            env=os.environ | {"CI": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_RUN_S,
        )

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The tree with the mutant in it."""
        path = self._folder / mutant.file
        before = path.read_text(encoding="utf-8")
        try:
            self._write(path, before.replace(mutant.old, mutant.new))
            yield
        finally:
            self._write(path, before)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        """Compiled files are removed: one of the same second and size would be taken for this text's."""
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()


def misfit(mutant: Mutant) -> str:
    """Why the mutant does not fit the tree any more; empty when it fits."""
    file = PROJECT / mutant.file
    count = file.read_text(encoding="utf-8").count(mutant.old) if file.is_file() else 0
    if count != 1:
        return f"its `old` occurs {count} times in {mutant.file}, not once: change it in tests/mutants.toml"
    missing = [name for name in mutant.tests if not (PROJECT / name.partition("::")[0]).is_file()]
    return f"there is no {missing[0]}: change it in tests/mutants.toml" if missing else ""


def verdict(tree: Tree, mutant: Mutant) -> str:
    """Empty when the mutant is killed, or what is wrong."""
    if problem := misfit(mutant):
        return problem
    with tree.changed(mutant):
        done = tree.run(mutant.tests)
    if done.returncode == 0:
        return f"it survives {', '.join(mutant.tests)}"
    return "" if done.returncode == TESTS_FAILED else f"the tests did not run:\n{done.stdout[-2000:]}"


def main(words: Sequence[str]) -> int:
    chosen = [mutant for mutant in load_mutants() if not words or any(word in mutant.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="glassmq-mutants-") as folder, ThreadPoolExecutor(WORKERS) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(WORKERS):
            (Path(folder) / str(number)).mkdir()
            trees.put(Tree(Path(folder) / str(number)))

        def judge(mutant: Mutant) -> str:
            tree = trees.get()
            try:
                return verdict(tree, mutant)
            finally:
                trees.put(tree)

        tests = sorted({name for mutant in chosen if not misfit(mutant) for name in mutant.tests})
        tree = trees.get()
        sound = tree.run(tests)
        trees.put(tree)
        if sound.returncode:
            print(f"The tests fail without any mutant:\n{sound.stdout[-4000:]}")
            return 1
        wrong = 0
        for mutant, problem in zip(chosen, pool.map(judge, chosen), strict=True):
            wrong += bool(problem)
            print(
                f"{'WRONG ' if problem else 'killed'}  {mutant.name}" + (f": {problem}" if problem else ""), flush=True
            )
    print(f"{len(chosen)} mutants, {len(chosen) - wrong} killed, {wrong} not")
    return int(bool(wrong) or not chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
