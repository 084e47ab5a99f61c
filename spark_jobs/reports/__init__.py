"""The reports. Each has a module of its name, with its steps and, at the end, its ``REPORT``."""

from importlib import import_module

from spark_jobs.catalogue import REPORTS
from spark_jobs.reports.shape import Report


def load(name: str) -> Report:
    """The report of that name; needs pyspark. KeyError for an unknown one."""
    report: Report = import_module(f"{__name__}.{REPORTS[name].name}").REPORT
    return report
