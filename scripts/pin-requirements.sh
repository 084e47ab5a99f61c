#!/bin/sh
# Writes requirements/*.txt from *.in, for every Python from 3.11 on and every platform, with hashes.
set -eu
cd requirements
for set in base dev spark; do
    ../.venv/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
        --no-header --no-emit-find-links "$@" "$set.in" --output-file "$set.txt"
done
