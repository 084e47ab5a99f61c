"""The verdicts that the tests of broker_core/verdicts reach, one for each form of a sentence.

    python -m tests.dashboard.verdict_samples > tests/dashboard/verdict_samples.json

The tests of the sentences in other languages read them. Each is about group ``g``, at the moment ``NOW_MS``.
"""

import contextlib
import json
import os
import re
import sys
from typing import Any

import pytest

from broker_core.verdicts.catalogue import Situation
from broker_core.verdicts.verdict import Verdict
from tests.conftest import PROJECT

VARIABLE = re.compile(r"[\w%]+@\d+( at broker-\w)?|(java|web)-\d|zz|(\* )?[\d,]+( min | h | d )?(\d+ s)?|less than 1 s")
"""Names and numbers, in which sentences of one form differ."""
TESTS = PROJECT / "tests" / "broker_core" / "verdicts"


def samples() -> list[dict[str, Any]]:
    """Run the tests, and note each verdict on the way. RuntimeError if a test fails."""
    found: dict[tuple[str, str], Verdict] = {}
    original = Situation.verdict

    def note(*arguments: Any, **options: Any) -> Verdict:
        verdict = original(*arguments, **options)
        form = VARIABLE.sub("*", verdict.sentence)
        return found.setdefault((verdict.id, form), verdict) and verdict

    Situation.verdict = note  # type: ignore[method-assign]
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            code = pytest.main([str(TESTS), "-q", "-p", "no:cacheprovider", "-m", "not hypothesis"])
    finally:
        Situation.verdict = original  # type: ignore[method-assign]
    if code:
        raise RuntimeError(f"the tests of the verdicts failed: {code}")
    return [
        {"id": verdict.id, "sentence": verdict.sentence, "evidence": verdict.evidence}
        for _, verdict in sorted(found.items())
    ]


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(sample, ensure_ascii=False) for sample in samples())
    sys.stdout.write(f"[\n{lines}\n]\n")
