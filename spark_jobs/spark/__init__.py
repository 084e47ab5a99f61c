"""Spark itself: the session, its Java, its progress and its errors."""
