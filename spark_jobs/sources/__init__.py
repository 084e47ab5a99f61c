"""Stored files as Spark tables: the commit log and the poll journal."""
