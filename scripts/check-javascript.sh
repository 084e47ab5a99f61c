#!/bin/sh
# Every module of the pages must be readable as JavaScript.
set -eu

if ! command -v node >/dev/null 2>&1; then
    echo "node is not on the PATH: static/js is checked with it. 'make test' installs it on Debian and Ubuntu." >&2
    exit 1
fi
find static/js -name '*.js' | sort | while read -r file; do
    if ! node --input-type=module --check <"$file"; then
        echo "$file cannot be read; see above." >&2
        exit 1
    fi
done
