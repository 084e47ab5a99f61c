"""Reports inside the web application: runs, schedules, processes, and Celery's scheduler."""
