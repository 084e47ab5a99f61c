"""The lake: a copy of the store's history for reports over weeks."""
