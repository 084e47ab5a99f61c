"""What every test may use."""

import os
import tempfile
from pathlib import Path

# Before Django's settings are read: a run of the tests never touches the data folder of the checkout.
_scratch = tempfile.TemporaryDirectory(prefix="glassmq-tests-", ignore_cleanup_errors=True)
for _name in [name for name in os.environ if name.startswith("GLASSMQ_")]:
    del os.environ[_name]
os.environ["GLASSMQ_DATA_DIR"] = str(Path(_scratch.name) / "data")
