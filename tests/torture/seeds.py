"""Simulations with many seeds: power cuts, and schedules of wake-ups with the periodic check switched off.

    python -m tests.torture.seeds --what power-cuts --count 10000       sync flush; --seed is the first one
    python -m tests.torture.seeds --what wake-ups --count 100000        every other one with sync flush

The simulations are those of ``test_crashes.py`` (``tests/broker_core/store``) and ``test_no_lost_wakeup.py``.
"""

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from tests.broker_core.store.test_crashes import work_and_crash
from tests.simulation.test_no_lost_wakeup import run_schedule
from tests.torture.proof import Proof, parser

CHUNK = 100


def cut_power(seed: int) -> dict[str, int]:
    """One store with sync flush; what happened to it. AssertionError if something acknowledged is lost."""
    world = work_and_crash(seed, sync=True)
    return {"messages": world.number, "starts": world.starts}


def wake(seed: int) -> dict[str, int]:
    """One schedule of clients. AssertionError if a hold waits for a message that is there, or is answered twice."""
    return {"woken_by_arrival": run_schedule(seed, ("ASYNC_FLUSH", "SYNC_FLUSH")[seed % 2])}


SIMULATIONS: dict[str, Callable[[int], dict[str, int]]] = {"power-cuts": cut_power, "wake-ups": wake}


def run_seeds(what: str, seeds: range) -> tuple[Counter[str], list[str]]:
    """The sums of what happened, and a text for each seed that broke a promise."""
    sums, broken = Counter[str](), []
    for seed in seeds:
        try:
            sums.update(SIMULATIONS[what](seed))
        except Exception:
            broken.append(f"seed {seed}: {traceback.format_exc(limit=-2)}")
        sums["seeds"] += 1
    return sums, broken


def main() -> int:
    options = parser(__doc__ or "", what="power-cuts", count=10_000, minutes=24 * 60.0, jobs=os.cpu_count() or 1)
    arguments = options.parse_args()
    if arguments.what not in SIMULATIONS:
        options.error(f"--what is one of {', '.join(SIMULATIONS)}")
    proof, sums = Proof("seeds", arguments), Counter[str]()
    end = arguments.seed + arguments.count
    chunks = [range(first, min(first + CHUNK, end)) for first in range(arguments.seed, end, CHUNK)]
    deadline = time.monotonic() + arguments.minutes * 60
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for part, broken in pool.map(run_seeds, [arguments.what] * len(chunks), chunks):
            sums += part
            for violation in broken:
                proof.check(False, violation)
            print(f"{sums['seeds']} of {arguments.count} seeds", file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                pool.shutdown(cancel_futures=True)
                break
    proof.figures |= sums
    return proof.finish()


if __name__ == "__main__":
    sys.exit(main())
