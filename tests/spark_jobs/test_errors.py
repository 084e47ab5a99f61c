"""Errors that are sentences."""

import pytest

from spark_jobs import errors


@pytest.mark.parametrize("kind", [errors.NoJavaError, errors.NoSparkError, errors.NotAStoreError])
def test_all_are_caught_as_one(kind: type[errors.ReportError]) -> None:
    with pytest.raises(errors.ReportError, match=r"^Because\.$"):
        raise kind("Because.")
