"""Reports inside the web application: runs, schedules, processes, and what Celery starts."""
