"""Whether reports can run: what the worker says about its Spark, kept in the database for the pages to show.

Imports nothing of Spark, so that the web may read it.
"""

from datetime import timedelta
from typing import NamedTuple

from django.utils import timezone

from spark_jobs.models import SparkEnvironment, SparkState

SILENCE = timedelta(minutes=2)
"""An installation that says nothing for so long has died."""


class Environment(NamedTuple):
    """The state and a sentence about it."""

    state: SparkState
    text: str


def read_environment() -> Environment:
    """What is known now."""
    row = SparkEnvironment.objects.filter(pk=SparkEnvironment.ROW).first()
    if row is None:
        return Environment(SparkState.ABSENT, "No report worker has started yet.")
    state = SparkState(row.state)
    if state == SparkState.INSTALLING and timezone.now() - row.updated > SILENCE:
        return Environment(
            SparkState.FAILED,
            "The installation of Spark stopped without a word; it begins again when the report worker starts.",
        )
    return Environment(state, row.text)


def write_environment(state: SparkState, text: str) -> None:
    """Say how it stands."""
    SparkEnvironment.objects.update_or_create(
        pk=SparkEnvironment.ROW, defaults={"state": state, "text": text[:2000], "updated": timezone.now()}
    )


def touch_environment() -> None:
    """What was said last still holds."""
    SparkEnvironment.objects.filter(pk=SparkEnvironment.ROW).update(updated=timezone.now())
