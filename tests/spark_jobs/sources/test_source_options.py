"""What a data source is told."""

import pytest

from spark_jobs.sources.source_options import whole_number


def test_a_number_its_default_and_what_is_none() -> None:
    options = {"start": "-12", "end": "soon"}
    assert whole_number(options, "start", 5) == -12
    assert whole_number(options, "split_bytes", 5) == 5
    assert whole_number(options, "from_ms", None) is None
    with pytest.raises(ValueError, match="end is a whole number, not 'soon'"):
        whole_number(options, "end", None)
