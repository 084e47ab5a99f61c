"""Loops over the bytes of a log, compiled to machine code where they first run, by Numba.

What a report reads is found record by record: each one says where the next begins. In Python such a step takes
microseconds; compiled, as long as the memory takes. Compiled code does not look whether an index is within its array,
but with ``NUMBA_BOUNDSCHECK=1``: what could lie outside is held against its bounds before it is read.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The function as machine code, kept beside its source, or in the user's cache where nothing can be written there.

    Where there is neither (``NUMBA_CACHE_DIR`` can name one), each process compiles it for itself, in some seconds.
    """
    try:
        return cast("_Function", njit(cache=True)(function))
    except RuntimeError:  # no folder for it
        return cast("_Function", njit(function))


def inlined(function: _Function) -> _Function:
    """The function as a part of the compiled ones that call it: a call with arrays costs more than most of them do."""
    return cast("_Function", njit(inline="always")(function))
