"""The list of reports."""

import subprocess
import sys

from spark_jobs.catalogue import REPORTS
from tests.conftest import PROJECT


def test_names_are_those_of_their_modules() -> None:
    for name, info in REPORTS.items():
        assert name == info.name
        assert (PROJECT / "spark_jobs" / "reports" / f"{name}.py").exists()


def test_the_daily_summary_looks_back_as_far_as_any_of_its_parts() -> None:
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
