"""The Celery application, for reports and their schedules.

Without Redis its messages are files in the data folder, as set in ``settings``.
"""

import os
import warnings
from pathlib import Path

from celery import Celery
from celery.platforms import SecurityWarning

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# Celery warns root users because messages could be pickles; ours are JSON only.
warnings.simplefilter("ignore", SecurityWarning)

app = Celery("glassmq")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.set_default()  # for every thread: Django runs views in threads of their own
app.autodiscover_tasks()


def make_folders() -> None:
    """Create the folders of the transport that stores messages as files."""
    for name, value in app.conf.broker_transport_options.items():
        if "folder" in name:
            Path(value).mkdir(mode=0o700, parents=True, exist_ok=True)


make_folders()
