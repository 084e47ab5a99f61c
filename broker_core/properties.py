"""Java properties, the form of a ``broker.conf`` and of the options in requests."""


def parse_properties(text: str) -> dict[str, str]:
    """Java properties in the simple form that RocketMQ writes: ``name=value`` lines and comments."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            values[name.strip()] = value.strip()
    return values
