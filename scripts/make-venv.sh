#!/bin/sh
# Makes .venv with the newest Python from 3.11 to 3.13 that this machine has.
set -eu

for candidate in python3.13 python3.12 python3.11 python3 python; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        found=$candidate
        break
    fi
done
if [ -z "${found:-}" ]; then
    echo "GlassMQ needs Python 3.11, 3.12 or 3.13, and none of them is on the PATH: install one, then 'make setup' again." >&2
    exit 1
fi
if ! "$found" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "$found has no venv module: install it (on Debian and Ubuntu: apt-get install python3-venv), then 'make setup' again." >&2
    exit 1
fi
echo "Making .venv with $("$found" --version)"
rm -rf .venv
"$found" -m venv .venv
