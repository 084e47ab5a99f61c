#!/bin/sh
# Compiles the tests once in a new checkout. Otherwise each of the four workers of `make test` compiles all of them for
# itself. What fails here fails again in the tests, which report it.
set -eu
[ ! -e tests/simulation/__pycache__ ] || exit 0

compile() {
    .venv/bin/python -m pytest -qq --collect-only "$@" >/dev/null 2>&1 || true
}
compile tests/broker_core &
# shellcheck disable=SC2046  # several words on purpose
compile $(ls -d tests/*/ tests/test_*.py | grep -v broker_core) &
wait
