"""The AsyncAPI 3.0 document of the two WebSockets, generated from their frames.

``/api/v1/asyncapi.json`` serves it, and ``docs/asyncapi.yaml`` has it to read.
"""

from functools import lru_cache
from typing import Any, get_args

import msgspec

from api.http.openapi import schemas_of
from api.websockets import frames

_CHANNELS: dict[str, dict[str, Any]] = {
    "consumer": {
        "address": "/ws/v1/consumer",
        "title": "Consumer",
        "description": f"""Pull, commit, publish and subscribe over one socket; subprotocol `{frames.SUBPROTOCOL}`.

The client begins with `hello`. Many `pull`s may be held at once; they are answered by `id` as they are woken:
`held`, then `woken` and `pulled`. A pull that finds messages at once is answered by `pulled` alone. When a socket
closes, its holds are released at once. Frames are JSON texts; with `?int64=string` 64-bit numbers are strings.

`subscribe` makes the client a member of a group, beside RocketMQ clients. It gets its queues by `assigned`, and their
messages for its `permit`s, in the order of each queue, and `ack`s them. Offsets are committed up to the first message
that is not acknowledged; messages from there on are delivered again. `problem`s carry the subscription's `id`. The
client leaves the group with `unsubscribe`, or when its socket closes.

Frames of the server are as large as `max_sent_frame_bytes` at most: many WebSocket libraries need a limit of their own
raised to that. Messages are delivered whole, up to 16 MiB. A `pulled` carries 4 MiB of bodies, or one message.

A refused handshake is answered 404 for another path, 403 for a page of another origin, and 400 if none of the offered
subprotocols is this one. Close codes: 4400 frames that are not of this protocol, 4401 not authenticated or logged
out, 4403 forbidden, 4408 idle, 4413 a frame too large, 4429 the client does not read, 1011 the server failed, 1012
the server restarts.""",
        "receive": frames.ConsumerRequest,
        "send": frames.ConsumerAnswer,
    },
    "events": {
        "address": "/ws/v1/events",
        "title": "Events",
        "description": """The broker's state, live: a `snapshot`, then `delta`s of the changes, at most ten a second
and at least one every two seconds. A page without a delta for five seconds is stale. `lost` is sent when the engine
is away; a snapshot follows when it is back. Apply a delta if its `seq_from` is the last `seq_to` + 1; otherwise ask for
a `snapshot`.""",
        "receive": frames.EventsRequest,
        "send": frames.EventsAnswer,
    },
}


@lru_cache(1)
def document() -> bytes:
    """The document as JSON."""
    return msgspec.json.format(msgspec.json.encode(build()), indent=1)


def tag_of(frame: type[msgspec.Struct]) -> str:
    """The value of the frame's ``type`` field."""
    return str(frame.__struct_config__.tag)


def build() -> dict[str, Any]:
    """The whole document."""
    every = list(
        dict.fromkeys(
            frame for channel in _CHANNELS.values() for side in ("receive", "send") for frame in get_args(channel[side])
        )
    )
    _, components = schemas_of(every)
    document: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {"title": "GlassMQ WebSockets", "version": "1", "description": "The live side of the HTTP API."},
        "defaultContentType": "application/json",
        "channels": {},
        "operations": {},
        "components": {
            "messages": {frame.__name__: _message(frame) for frame in every},
            "schemas": dict(sorted(components.items())),
        },
    }
    for name, channel in _CHANNELS.items():
        document["channels"][name] = {
            "address": channel["address"],
            "title": channel["title"],
            "description": channel["description"],
            "messages": {
                frame.__name__: {"$ref": f"#/components/messages/{frame.__name__}"}
                for side in ("receive", "send")
                for frame in get_args(channel[side])
            },
        }
        for action in ("receive", "send"):
            document["operations"][f"{name}_{action}"] = {
                "action": action,
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [
                    {"$ref": f"#/channels/{name}/messages/{frame.__name__}"} for frame in get_args(channel[action])
                ],
            }
    return document


def _message(frame: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        "name": tag_of(frame),
        "summary": (frame.__doc__ or "").split("\n")[0],
        "payload": {"$ref": f"#/components/schemas/{frame.__name__}"},
    }


def main() -> None:
    """Print the document as YAML: ``python -m api.websockets.asyncapi > docs/asyncapi.yaml``."""
    import yaml  # a tool of development, not needed to serve

    print(yaml.safe_dump(build(), sort_keys=False, allow_unicode=True, width=120), end="")


if __name__ == "__main__":
    main()
