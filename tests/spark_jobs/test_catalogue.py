"""The list of reports."""

import subprocess
import sys

from spark_jobs.catalogue import REPORTS
from spark_jobs.reports import load
from tests.conftest import PROJECT


def test_names_are_those_of_their_modules() -> None:
    for name, info in REPORTS.items():
        assert name == info.name
        assert (PROJECT / "spark_jobs" / "reports" / f"{name}.py").exists()


def test_a_report_states_how_far_it_looks_back() -> None:
    assert {name: info.look_back_ms for name, info in REPORTS.items()} == {
        name: load(name).look_back_ms for name in REPORTS
    }
    assert REPORTS["daily_summary"].look_back_ms == max(info.look_back_ms for info in REPORTS.values())


def test_the_web_side_imports_nothing_of_spark() -> None:
    code = (
        "import django, sys; django.setup(); import api.resources.reports, spark_jobs.tasks\n"
        "import spark_jobs.management.commands.report, spark_jobs.management.commands.lake\n"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas', 'numpy') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": "/usr/bin:/bin"},
    )
    assert said.stdout.strip() == "[]"
