"""Reports inside the web application: runs, schedules and processes."""
