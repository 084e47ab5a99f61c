"""``manage.py`` with a lake that is filled in small rounds, so that there is a middle in which to end it.

python tests/spark_jobs/lake_filler.py lake sync --store PATH --lake DIR
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.management import execute_from_command_line

from spark_jobs.lake import sync as lake_sync

if __name__ == "__main__":
    lake_sync.SMALLEST_TASK, lake_sync.LARGEST_TASK, lake_sync.ROUND_BYTES = 4096, 8192, 16384
    execute_from_command_line(sys.argv)
