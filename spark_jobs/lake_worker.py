"""Filling a lake on the report worker's side: in Spark's process, a round at a time, between reports."""

import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.utils import timezone

from spark_jobs import lake_state, report_worker, setup
from spark_jobs.errors import LakeError

logger = logging.getLogger(__name__)

TIME_LIMIT = timedelta(hours=1)
"""Of a round."""


class Limit:
    """A watcher that wants the result until the time is up."""

    def __init__(self) -> None:
        self._until: datetime = timezone.now() + TIME_LIMIT

    def progress(self, percent: int, doing: str) -> None:
        """Into the log."""
        logger.debug("The lake: %d %%, %s.", percent, doing)

    def is_wanted(self) -> bool:
        return timezone.now() < self._until


def fill_lake(with_bodies: bool) -> dict[str, Any]:
    """One round of filling the lake of this broker's store; what became of it, as ``lake_sync.Synced``.

    Where more is to be read, the next round waits behind the reports that wait now. LakeError, with a sentence.
    """
    if not setup.is_ready():
        raise LakeError("Spark is not set up yet; the lake is filled when the schedule comes again.")
    lakes = Path(settings.GLASSMQ_LAKE_DIR)
    order = {
        "job": "lake", "group": f"lake-{uuid4().hex[:8]}",
        "master": settings.GLASSMQ_SPARK_MASTER, "scratch": str(setup.scratch_folder()),
        "arguments": {"store": str(settings.GLASSMQ_STORE_DIR), "lakes": str(lakes), "with_bodies": with_bodies},
    }
    log = lakes / "sync.log"
    try:
        log.unlink(missing_ok=True)
        answer = report_worker.spark().run(order, log, Limit())
    except OSError as error:
        raise LakeError(f"Spark's process cannot be started: {error}.") from error
    if "done" in answer:
        done: dict[str, Any] = answer["done"]
        log.unlink(missing_ok=True)
        if not done["is_all"]:
            lake_state.go_on(with_bodies=with_bodies)
        return done
    if "cancelled" in answer:
        raise LakeError(f"It took longer than {TIME_LIMIT} and was stopped; the next one goes on from there.")
    raise LakeError(answer.get("failed") or f"Spark's process ended in the middle of it; {log} has its last words.")
