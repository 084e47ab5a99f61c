#!/bin/sh
# Installs pinned requirements into .venv: pip-install.sh -r FILE... Programs take turns, because `make run` installs
# Spark in the background, and pip spoils what another pip installs. pip inherits the lock, so the next program waits for
# it even if this script was killed. Reports wait as long as anything is installed (spark_jobs/spark/session.py).
set -eu
lock='import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | (fcntl.LOCK_NB if sys.argv[1:] else 0))'
exec 9>.venv/install.lock
if ! .venv/bin/python -c "$lock" at-once 2>/dev/null; then
    echo "Waiting for another installation to end"
    .venv/bin/python -c "$lock"
fi
exec .venv/bin/python -m pip --disable-pip-version-check install --no-input --progress-bar off --require-hashes "$@"
