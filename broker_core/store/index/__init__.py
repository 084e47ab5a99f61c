"""The index: messages by key. RocketMQ's package store.index."""
