"""The queues of a store. RocketMQ has most of them in its package store.queue."""
