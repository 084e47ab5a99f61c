"""The files of a run: tables, sentences, charts and the page."""
