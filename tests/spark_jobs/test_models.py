"""Runs in the database."""

import pytest
from django.db import IntegrityError, transaction

from spark_jobs.models import ACTIVE, ReportRun, Status

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", ACTIVE)
def test_a_report_has_at_most_one_active_run(status: Status) -> None:
    ReportRun.objects.create(report="throughput", status=status)
    ReportRun.objects.create(report="throughput", status=Status.DONE)
    ReportRun.objects.create(report="other", status=status)
    with pytest.raises(IntegrityError), transaction.atomic():
        ReportRun.objects.create(report="throughput")


def test_the_newest_run_comes_first() -> None:
    made = [ReportRun.objects.create(report="throughput", status=Status.DONE) for _ in range(3)]
    assert list(ReportRun.objects.all()) == made[::-1]
    assert str(made[0]) == f"throughput {made[0].pk}: done"
