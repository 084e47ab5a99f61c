"""The settings under test: those of the project, with nothing from this machine's environment.

A run never touches the data folder of the checkout, nor a broker that somebody runs beside it.
"""

import atexit
import os
import shutil
import tempfile

for _name in [name for name in os.environ if name.startswith("GLASSMQ_")]:
    del os.environ[_name]
os.environ["GLASSMQ_DATA_DIR"] = tempfile.mkdtemp(prefix="glassmq-tests-")
os.environ |= {"GLASSMQ_BROKER_PORT": "0", "GLASSMQ_NAMESRV_PORT": "0"}  # what listens in a test says so itself
atexit.register(shutil.rmtree, os.environ["GLASSMQ_DATA_DIR"], ignore_errors=True)

from config.settings import *  # noqa: E402, F403
