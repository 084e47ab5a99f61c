"""Spark itself: the session, the cluster or server that it runs on, its Java, its jobs."""
