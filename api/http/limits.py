"""Limits on what clients may use, each with its reason."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# One request
MAX_MESSAGE_BODY: Final = 4 * MIB
"""Largest body of one message, bytes: RocketMQ's maxMessageSize."""
MAX_REQUEST_BODY: Final = 8 * MIB
"""Largest HTTP request body, bytes: a batch of 4 MiB still fits as base64."""
MAX_SMALL_BODY: Final = 64 * KIB
"""Largest request body where no messages are sent, bytes."""
MAX_MESSAGES_PER_PUBLISH: Final = 1024
MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32 * KIB
MAX_PATH_BYTES: Final = 4 * KIB
MAX_QUERY_BYTES: Final = 16 * KIB
MAX_IDEMPOTENCY_KEY: Final = 128

# One pull
DEFAULT_WAIT_MS: Final = 15_000
"""The wait of a RocketMQ push consumer (brokerSuspendMaxTimeMillis)."""
MAX_WAIT_MS: Final = 30_000
DEFAULT_PULL_MESSAGES: Final = 32
MAX_PULL_MESSAGES: Final = 1024

# One receive, and its receipts
MAX_RECEIVED: Final = 32
"""RocketMQ's limit for one pop."""
DEFAULT_LEASE_MS: Final = 60_000
MIN_LEASE_MS: Final = 1000
MAX_LEASE_MS: Final = 12 * 3_600_000
MAX_RECEIPT: Final = 512
"""Longest receipt, characters: six numbers and the name of a broker."""
MAX_RECEIPTS: Final = 256
"""Receipts in one request. Each may be a record of the revive log."""
MAX_RECEIPTS_BODY: Final = 256 * KIB
"""Largest request body with receipts, bytes."""

# What answers hold in memory
SMALL_ANSWER: Final = 64 * KIB
"""Larger answers are counted in MAX_UNREAD_ANSWERS, and are sent in parts of about this size, bytes."""
MAX_UNREAD_ANSWERS: Final = 128 * MIB
"""All answers that are being made, or wait for their clients to read them, bytes."""
ANSWER_WAIT_SECONDS: Final = 30.0
"""A request waits for room in MAX_UNREAD_ANSWERS. It is refused with 503 when none that waits got room for so long."""
MAX_UNREAD_FRAMES: Final = 128 * MIB
"""The same for all WebSockets: frames with messages of more than SMALL_ANSWER, bytes."""
FILE_PART: Final = 128 * KIB
"""A file is read and sent in parts of this size, bytes."""

# One WebSocket
MAX_FRAME: Final = 6 * MIB
"""Largest frame that a client may send, bytes: one message of 4 MiB as base64, and its envelope."""
MAX_PULLED_BODIES: Final = 4 * MIB
"""Message bodies of one `pulled`, bytes; one message alone may have more."""
MAX_SENT_FRAME: Final = 33 * MIB
"""Largest frame that the server sends, bytes: one message with a body of 16 MiB, the largest that maxMessageSize allows
and that a compressed body may inflate to. JSON at most doubles it, and has the message's properties beside it."""
MAX_PULLS_PER_SOCKET: Final = 1000
MAX_RECEIVES_PER_SOCKET: Final = 8
"""Receives under way."""
MAX_PUBLISHES_PER_SOCKET: Final = 1000
MAX_PUBLISHED_BYTES_PER_SOCKET: Final = 32 * MIB
"""Frames of publishes that wait for the broker, bytes; one more is refused."""
MAX_READS_PER_SOCKET: Final = 4
"""Pulls that may read, not be held, at the same time: so unread answers cannot pile up here."""
MAX_SUBSCRIPTIONS_PER_SOCKET: Final = 32
MAX_QUEUES_PER_SOCKET: Final = 4096
"""Queues of all topics that one socket subscribes to, counted at the subscription: all may be assigned to it."""
MAX_WINDOW: Final = 10_000
"""Unused permits and unacknowledged messages of one subscription, together."""
MAX_SPAN: Final = 10_000
"""A queue that is this many offsets ahead of its first unacknowledged message is not pulled further."""
MAX_BUFFERED: Final = 2 * MIB
"""Messages of one socket that were pulled or popped and wait for permits, or for the client to read, bytes."""
MAX_BAD_FRAMES: Final = 5
IDLE_SECONDS: Final = 120.0

# Bytes and frames that wait for one client
ROOMY: Final = 1 * MIB
"""Below this many unsent bytes further pulls of the same socket are read, bytes."""
LARGE_FRAME: Final = 1 * MIB
"""One frame above this size may wait beside MAX_UNSENT, bytes: a message may be larger than MAX_UNSENT."""
MAX_UNSENT: Final = 4 * MIB
"""A client is cut when more than this waits for it, bytes, apart from one large frame."""
STALL_SECONDS: Final = 20.0
"""A client that reads nothing for this long is cut."""
FRAME_OVERHEAD: Final = 300
"""Memory that a waiting frame takes beside its content, bytes. It counts as unsent, because frames may be small."""
SERVER_BUFFER: Final = MIB // 2
"""Bytes in the server's own write buffer above which the next frame waits here."""
MAX_WAITING_EVENTS: Final = 20_000
"""Server-sent events that may wait for one client."""
MAX_WAITING_FRAMES: Final = 100
"""Frames of `/ws/v1/events` that may wait for one page: ten seconds of them."""
