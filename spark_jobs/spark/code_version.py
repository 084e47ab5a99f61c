"""Which code made a result: the version and a digest of the sources that results depend on."""

import hashlib
from pathlib import Path

import broker_core
from broker_core.version import VERSION

PROJECT = Path(__file__).resolve().parent.parent.parent
ROOTS = (PROJECT, Path(broker_core.__file__).resolve().parent.parent)
"""The same folder in a checkout. In an installation, ``broker_core`` is in another one."""
SENT_TO_TASKS = (
    "broker_core/__init__.py",
    "broker_core/formats/*.py",
    "spark_jobs/__init__.py",
    "spark_jobs/errors.py",
    "spark_jobs/lake/__init__.py",
    "spark_jobs/lake/storage.py",
    "spark_jobs/lake/tasks.py",
    "spark_jobs/sources/*.py",
)
"""What tasks import: the data sources where they read, the lake where it is filled."""
REPORTS = (
    "spark_jobs/reports/*.py",
    "spark_jobs/output/*.py",
    "spark_jobs/inputs.py",
    "spark_jobs/job.py",
    "spark_jobs/run.py",
    "spark_jobs/no_journal.py",
)


def sources(patterns: tuple[str, ...]) -> list[Path]:
    """The files of these patterns, in order."""
    found = (next(filter(None, (sorted(root.glob(pattern)) for root in ROOTS)), []) for pattern in patterns)
    return [path for paths in found for path in paths]


def name_in_project(path: Path) -> str:
    """The name of a source as in a checkout, such as ``broker_core/formats/tags_code.py``."""
    return next(path.relative_to(root) for root in ROOTS if path.is_relative_to(root)).as_posix()


def digest(patterns: tuple[str, ...]) -> str:
    """Twelve hexadecimal digits that change with any of the files."""
    found = hashlib.sha256()
    for path in sources(patterns):
        found.update(name_in_project(path).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def code_version() -> str:
    """As ``0.1.0+3f2a90c41b7d``."""
    return f"{VERSION}+{digest(SENT_TO_TASKS + REPORTS)}"
