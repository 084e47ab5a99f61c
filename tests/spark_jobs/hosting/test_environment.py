"""What is said about Spark."""

from datetime import timedelta

import pytest
from django.utils import timezone

from spark_jobs.hosting.environment import SILENCE, read_environment, touch_environment, write_environment
from spark_jobs.models import SparkEnvironment, SparkState

pytestmark = pytest.mark.django_db


def test_before_any_worker_started_nothing_is_there() -> None:
    assert read_environment() == (SparkState.ABSENT, "No report worker has started yet.")


def test_the_last_word_counts() -> None:
    write_environment(SparkState.INSTALLING, "Downloading")
    write_environment(SparkState.READY, "Spark 4 is ready.")
    assert read_environment() == (SparkState.READY, "Spark 4 is ready.")
    assert SparkEnvironment.objects.count() == 1


def test_an_installation_that_fell_silent_has_failed() -> None:
    write_environment(SparkState.INSTALLING, "Downloading")
    assert read_environment().state == SparkState.INSTALLING
    SparkEnvironment.objects.update(updated=timezone.now() - SILENCE - timedelta(seconds=1))
    assert read_environment().state == SparkState.FAILED
    touch_environment()
    assert read_environment() == (SparkState.INSTALLING, "Downloading")
