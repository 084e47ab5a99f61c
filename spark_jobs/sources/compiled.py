"""Compiles loops to machine code where they first run, with Numba, which keeps the code in its cache.

Numba compiles a function anew where the function's own file has changed. So functions that call one another, and the
numbers that they use, have to be in one file. Compiled code does not check whether an index is within its array, except
with ``NUMBA_BOUNDSCHECK=1``; such a run needs a cache of its own (``NUMBA_CACHE_DIR``).
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from numba import njit

logger = logging.getLogger(__name__)

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The function as machine code; other threads run meanwhile.

    Where Numba finds no folder for its cache, each process compiles the function for itself, in some seconds.
    """
    try:
        return cast("_Function", njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder for the cache
        warn_once()
        return cast("_Function", njit(nogil=True)(function))


@cache
def warn_once() -> None:
    """Log that nothing is cached."""
    logger.warning(
        "Compiled loops are not cached, so each of Spark's Python processes compiles them anew, in some seconds. "
        "Set NUMBA_CACHE_DIR to a folder that can be written to."
    )


def inlined(function: _Function) -> _Function:
    """The function as a part of the compiled ones that call it: a call with arrays costs more than most of them do."""
    return cast("_Function", njit(inline="always")(function))
