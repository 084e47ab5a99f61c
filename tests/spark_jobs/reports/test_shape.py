"""What a report is made of imports nothing of Spark: its charts are read where its page is written."""

import subprocess
import sys

from spark_jobs.reports.shape import LEFT_OUT, Chart, Figure
from tests.conftest import PROJECT


def test_it_needs_no_spark() -> None:
    code = "import spark_jobs.reports.shape, sys; print('pyspark' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_defaults_draw_what_there_is() -> None:
    chart = Chart("time", "Over time", "by_minute", ("messages",))
    assert (chart.split, chart.choose, chart.per_second, chart.merge) == ((), "", False, "sum")
    assert Figure("messages", "Messages") == Figure("messages", "Messages", "", False, "")
    assert LEFT_OUT
