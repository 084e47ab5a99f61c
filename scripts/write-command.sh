#!/bin/sh
# Writes .venv/bin/glassmq, the command of this checkout. It needs no installation, so it always is what the sources say.
set -eu
cat >.venv/bin/glassmq <<END
#!$(cd .venv/bin && pwd -P)/python
"""The command of the checkout that has this .venv; \`make setup\` writes it."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).absolute().parents[2])

from broker_core.cli.main import main

main()
END
chmod +x .venv/bin/glassmq
