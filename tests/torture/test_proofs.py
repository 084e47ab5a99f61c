"""The long proofs for a few seconds, and what they would find: ``make torture`` runs them in full."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import silent_readers
from tests.compat.glassmq_broker import GlassMQ
from tests.torture import frames, full_disk, kills, load, seeds
from tests.torture.proof import Proof, running


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[GlassMQ, Path]]:
    """One broker for all proofs of this file but that of a full disk."""
    with running(*kills.OPTIONS) as started:
        yield started


@pytest.fixture
def proof() -> Proof:
    return Proof("short", argparse.Namespace(seed=1))


def test_a_violation_is_printed_with_the_way_to_repeat_it(proof: Proof, capsys: pytest.CaptureFixture[str]) -> None:
    assert proof.finish() == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    proof.check(False, "a message is lost")
    assert proof.finish() == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["violations"] == ["a message is lost"]
    assert "python -m tests.torture.short --seed 1" in printed.err


def test_growing_figures_are_violations(proof: Proof) -> None:
    flat = [{"descriptors": 100.0, "growing": 10.0 + n} for n in range(30)]
    proof.check_flat(flat, {"descriptors": 8, "growing": 30})
    assert proof.violations == []
    proof.check_flat(flat, {"growing": 8})
    assert proof.violations == ["growing grew from 19.5 to 35.5"]


@pytest.mark.parametrize("what", ["power-cuts", "wake-ups"])
def test_three_seeds_keep_every_promise(what: str) -> None:
    sums, broken = seeds.run_seeds(what, range(1_000_000, 1_000_003))
    assert (sums["seeds"], broken) == (3, [])
    assert sums["messages"] > 100 or sums["woken_by_arrival"] > 10


def test_a_seed_that_breaks_a_promise_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_promise(seed: int) -> dict[str, int]:
        assert seed != 2
        return {}

    monkeypatch.setitem(seeds.SIMULATIONS, "power-cuts", break_promise)
    sums, broken = seeds.run_seeds("power-cuts", range(4))
    assert sums["seeds"] == 4
    assert [text[:6] for text in broken] == ["seed 2"]


@pytest.mark.parametrize(
    ("messages", "violation"),
    [
        ([0, 1, 2, 3], ""),
        ([0, 1, 3], "1 acknowledged messages are lost, such as 2"),
        ([0, 1, 1, 2, 3], "message 1 is stored twice"),
        ([0, 2, 1, 3], "message 1 is behind 2"),
    ],
)
def test_kills_find_what_is_lost_doubled_or_out_of_order(messages: list[int], violation: str) -> None:
    lane = kills.Lane(7)
    lane.acknowledge(range(1, 4))
    assert lane.violations(messages, lane.take_unchecked()) == ([f"queue 7: {violation}"] if violation else [])
    assert lane.acknowledged == 3


def test_a_hole_behind_a_repeated_call_is_a_violation() -> None:
    assert kills.Lane(0, keyed=True).violations([0, 2], set()) == ["queue 0: message 2 has offset 1"]


async def test_some_kills(proof: Proof, broker: tuple[GlassMQ, Path]) -> None:
    await kills.kill_often(proof, broker[0], cycles=2, minutes=1, seed=1, with_java=False)
    assert proof.violations == []
    assert {name.split()[0] for name in proof.figures["kills_by_victim"]} >= {"tree", "engine"}
    assert 0 < proof.figures["acknowledged"] <= proof.figures["stored"]


def test_mutated_frames_are_reproducible_and_mostly_whole() -> None:
    first, second = (frames.Mutator("1 broker 0", frames.EXAMPLES) for _ in range(2))
    batches = [first.remoting_batch(b"") for _ in range(20)]
    assert batches == [second.remoting_batch(b"") for _ in range(20)]
    assert sum(count for _, count, _ in batches) > 20 * 30


async def test_some_frames(proof: Proof, broker: tuple[GlassMQ, Path]) -> None:
    await frames.attack(proof, *broker, frames=4000, minutes=1, seed=1)
    assert proof.violations == []
    assert set(proof.figures["by_door"]) == set(frames.SHARES)


@pytest.mark.torture
async def test_a_soak_of_a_second_delivers(proof: Proof, broker: tuple[GlassMQ, Path]) -> None:
    await load.soak(proof, *broker, seconds=1.0, calibration=0.5, every=0.5)
    assert [violation for violation in proof.violations if "grew" not in violation] == []
    assert proof.figures["counts"]["delivered"] > 0


async def test_silent_readers_for_a_moment(proof: Proof, broker: tuple[GlassMQ, Path]) -> None:
    await silent_readers.measure(proof, *broker, rounds=1, seconds=0.05)
    assert [violation for violation in proof.violations if "p99" not in violation and "held" not in violation] == []
    assert set(proof.figures) == set(silent_readers.DOORS)


async def test_a_full_disk_loses_no_acknowledged_message(proof: Proof) -> None:
    try:
        await full_disk.fill_often(proof, "tmpfs", 1, 1)
    except full_disk.CannotMount as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    assert proof.violations == []
    assert proof.figures["tmpfs"]["acknowledged"] > 20
