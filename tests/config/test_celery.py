"""config/celery.py: a task goes through the files of the embedded transport, and through Redis where it is set."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from celery import current_app

from config.celery import app, make_folders
from tests.conftest import PROJECT

SEND = """
import django
django.setup()
from config.celery import app
app.send_task("reports.nothing", kwargs={"day": "2026-01-01"})
"""


LOGS = """
import logging
import sys
import django
django.setup()
from config.celery import app
app.log.setup(loglevel=sys.argv[1])
for name in ("celery.worker", "celery.beat", "django_celery_beat.schedulers", "spark_jobs.tasks"):
    print(logging.getLevelName(logging.getLogger(name).getEffectiveLevel()))
"""


@pytest.mark.parametrize("level", ["INFO", "WARNING"])
def test_loglevel_decides_what_a_worker_and_beat_log(clean_environment: dict[str, str], level: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", LOGS, level],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
        env=clean_environment | {"DJANGO_SETTINGS_MODULE": "config.settings"},
    )
    assert shown.stdout.split() == [level] * 4


def test_every_thread_has_glassmqs_celery_application() -> None:
    with ThreadPoolExecutor() as pool:
        assert pool.submit(lambda: current_app.main).result() == "glassmq"


def test_messages_are_json_only() -> None:
    assert app.conf.accept_content == ["json"]
    assert (app.conf.task_serializer, app.conf.result_serializer) == ("json", "json")
    assert app.conf.enable_utc
    assert app.conf.timezone == "UTC"


def test_an_interrupted_report_is_repeated_and_none_is_prefetched() -> None:
    assert app.conf.task_acks_late
    assert app.conf.worker_prefetch_multiplier == 1


def test_schedules_are_in_the_database() -> None:
    assert app.conf.beat_scheduler == "django_celery_beat.schedulers:DatabaseScheduler"
    assert app.conf.result_backend == "django-db"


def test_without_redis_a_task_waits_as_a_file_in_the_data_folder(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GLASSMQ_")}
    subprocess.run(
        [sys.executable, "-c", SEND],
        cwd=PROJECT,
        check=True,
        env=environment | {"GLASSMQ_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"},
    )
    [message] = (tmp_path / "celery" / "queue").iterdir()
    assert json.loads(message.read_text())["headers"]["task"] == "reports.nothing"


def test_missing_folders_are_created_again() -> None:
    folder = Path(app.conf.broker_transport_options["data_folder_in"])
    for left in folder.iterdir():
        left.unlink()
    folder.rmdir()
    make_folders()
    assert folder.is_dir()
