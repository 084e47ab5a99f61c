"""Filling a lake on the report worker's side: in Spark's process, a round at a time, between reports."""

import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from spark_jobs.errors import LakeCancelledError, LakeError
from spark_jobs.hosting import lake_state, report_worker, setup

logger = logging.getLogger(__name__)

TIME_LIMIT = timedelta(hours=1)
"""Of a round."""
TELL_AFTER = timedelta(seconds=0.5)
CANCELLED = "Filling the lake was cancelled; the next fill goes on from there."


class Watch:
    """A watcher that wants the result until the time is up or somebody cancels, and tells how far it is.

    ``stopped_by`` is "cancel", or the sentence that says which limit the round has passed.
    """

    def __init__(self, task_id: str) -> None:
        self.stopped_by = ""
        self._task_id = task_id
        self._told = timezone.now()
        self._until: datetime = self._told + TIME_LIMIT
        self._said = (0, "starting Spark")

    def progress(self, percent: int, doing: str) -> None:
        """How far the round is."""
        self._said = (percent, doing)

    def is_wanted(self) -> bool:
        """Whether anybody still wants the result, and tells how far it is."""
        if self.stopped_by:
            return False
        now = timezone.now()
        if now >= self._until:
            self.stopped_by = f"It took longer than {TIME_LIMIT} and was stopped; the next one goes on from there."
            return False
        try:
            if lake_state.is_to_stop(self._task_id):
                self.stopped_by = "cancel"
            elif now - self._told > TELL_AFTER:
                self._told = now
                lake_state.tell(self._task_id, *self._said)
        except DatabaseError:
            logger.exception("Filling the lake could not be watched for a moment.")
        return not self.stopped_by


def fill_lake(task_id: str, with_bodies: bool) -> dict[str, Any]:
    """One round of filling the lake of this broker's store; what became of it, as ``lake_sync.Synced``.

    Where more is to be read, the next round waits behind the reports that wait now. LakeCancelledError when somebody
    has cancelled it; LakeError, with a sentence.
    """
    if not lake_state.take_up(task_id):
        raise LakeCancelledError(CANCELLED)
    if not setup.is_ready():
        raise LakeError("Spark is not set up yet; the lake is filled when the schedule comes again.")
    lakes, store = Path(settings.GLASSMQ_LAKE_DIR), str(settings.GLASSMQ_STORE_DIR)
    order = {
        "job": "lake",
        "group": f"lake-{uuid4().hex[:8]}",
        "master": settings.GLASSMQ_SPARK_MASTER,
        "scratch": str(setup.scratch_folder()),
        "arguments": {
            "store": store,
            "lakes": str(lakes),
            "with_bodies": with_bodies,
            "keep_days": settings.GLASSMQ_LAKE_KEEP_DAYS,
        },
    }
    log, watch = lakes / "sync.log", Watch(task_id)
    try:
        log.unlink(missing_ok=True)
        answer = report_worker.spark().run(order, log, watch)
    except OSError as error:
        raise LakeError(f"Spark's process cannot be started: {error}.") from error
    if "done" in answer:
        done: dict[str, Any] = answer["done"]
        log.unlink(missing_ok=True)
        if not done["is_all"] and not lake_state.go_on(task_id, with_bodies=with_bodies):
            raise LakeCancelledError(CANCELLED)
        return done
    if watch.stopped_by == "cancel":
        log.unlink(missing_ok=True)
        raise LakeCancelledError(CANCELLED)
    raise LakeError(
        watch.stopped_by
        or answer.get("failed")
        or f"Spark's process ended in the middle of it; {log} has its last words."
    )
