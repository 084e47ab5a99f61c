"""The base of all events."""

import msgspec


class Event(
    msgspec.Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag=lambda name: "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"),
):
    """Base of all events; ``type`` in JSON is the class's name in snake_case."""

    seq: int
    wall_ms: int
    mono_ns: int


def event_types() -> frozenset[str]:
    """The values of ``type`` of all events."""
    return frozenset(str(kind.__struct_config__.tag) for kind in Event.__subclasses__())
