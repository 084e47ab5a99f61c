"""Options of the data sources, which Spark hands over as text."""

from collections.abc import Mapping


def whole_number(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """An option that is a whole number; ValueError for one that is not."""
    text = options.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is a whole number, not {text!r}") from None
