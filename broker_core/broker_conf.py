"""RocketMQ's configuration file of a broker, ``broker.conf``."""

from pathlib import Path

from broker_core.options import PYTHON_NAMES
from broker_core.properties import parse_properties


def read_broker_conf(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """A Java properties file as RocketMQ reads it: (options of this broker, other options).

    RocketMQ's file may contain hundreds of options; the names that have no meaning here are for a warning.
    """
    values = parse_properties(path.read_text(encoding="utf-8"))
    options = {name: value for name, value in values.items() if name in PYTHON_NAMES}
    if options.get("brokerRole") == "SLAVE":  # perhaps the configuration of a slave's store that is looked at
        del options["brokerRole"]
    return options, {name: value for name, value in values.items() if name not in options}
