"""Compiles loops to machine code where they first run, with Numba, and keeps it.

Functions that call one another, and the numbers that they are made of, have to be in one file: what is kept is made
anew only where a function's own file has changed. Compiled code does not look whether an index is within its array, but
with ``NUMBA_BOUNDSCHECK=1``.
"""

import fcntl
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.misc.appdirs import user_cache_dir

from spark_jobs.sources.leftovers import take_up

logger = logging.getLogger(__name__)

_Function = TypeVar("_Function", bound=Callable[..., Any])
config: Any = numba.config
FOLDERS = "glassmq-" + "[0-9a-f]" * 12
take_up_once = cache(take_up)  # many functions have the same folder


def compiled(function: _Function) -> _Function:
    """The function as machine code, kept where ``CodeLocator`` says; other threads run meanwhile.

    Where there is no folder for it, each process compiles it for itself, in some seconds.
    """
    made: Any = njit(nogil=True)(function)
    try:
        made._cache = CodeCache(function)  # type: ignore[no-untyped-call]
    except RuntimeError:  # no folder for it
        warn(Path(function.__code__.co_filename).parent)
    return cast("_Function", made)


@cache  # it is said once
def warn(sources: Path) -> None:
    """Say that nothing is kept: what Spark's Python processes say is in the log of their run, or of their executor."""
    logger.warning(
        "Compiled loops are kept nowhere, so each of Spark's Python processes compiles them anew, in some "
        "seconds: none of %s can be written to. NUMBA_CACHE_DIR names another folder.",
        ", ".join(map(str, folders(sources))),
    )


def inlined(function: _Function) -> _Function:
    """The function as a part of the compiled ones that call it: a call with arrays costs more than most of them do."""
    return cast("_Function", njit(inline="always")(function))


class CodeLocator(_CacheLocator):
    """Tells Numba where machine code is kept: in a folder for each state of a function's file.

    By itself Numba would use code that has bounds checks, or has none, for the other; and could not find that of
    sources that Spark sends along as a zip, which lie elsewhere each time.
    """

    def __init__(self, folder: Path, line: int) -> None:
        self._folder = folder
        self._line = line

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "CodeLocator | None":
        """None where no folder can be written to."""
        source: bytes = py_func.__globals__["__loader__"].get_data(py_file)
        digest = hashlib.sha256(source + repr(config.BOUNDSCHECK).encode()).hexdigest()[:12]
        for folder in folders(Path(py_file).parent):
            locator = cls(folder / f"glassmq-{digest}", py_func.__code__.co_firstlineno)
            with suppress(OSError):
                locator.ensure_cache_path()  # type: ignore[no-untyped-call]
                take_up_once(locator._folder, FOLDERS)
                return locator
        return None

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What the folder's name does not say of the source: nothing."""
        return ""

    def get_disambiguator(self) -> str:
        """What tells functions of one name in one file apart."""
        return str(self._line)


class _Kept(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [CodeLocator]  # noqa: RUF012 - so it is in Numba


class CodeCache(FunctionCache):
    """What is kept of one function. What cannot be read is made anew; what cannot be written is not kept."""

    _impl_class = _Kept

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for arguments of these types; None where there is none, or a file of it is damaged."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a file makes of itself that a power cut has left half written
            logger.warning("What is kept in %s of %s cannot be read, and is made anew: %r", self.cache_path, sig, error)
            with suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for arguments of these types."""
        try:
            with open(Path(self.cache_path) / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # Numba reads which files there are, and then writes the next one
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            logger.warning("What was compiled is not kept in %s: %s", self.cache_path, error)


def folders(sources: Path) -> Iterator[Path]:
    """Where to try: in the folder that ``NUMBA_CACHE_DIR`` names, beside the sources, in the user's cache."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    yield sources / "__pycache__"
    yield Path(user_cache_dir("numba"))  # type: ignore[no-untyped-call]
