"""WhiteNoise for files that may change while the server runs, as an upgrade in place changes them."""

import os
from typing import Any

from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware

Version = tuple[int, int]
"""Modification time, ns, and size of a file."""


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """Looks at a file again when it has changed: WhiteNoise cuts it to the length that it had at the start."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._found: dict[str, tuple[str, Version]] = {}
        super().__init__(*arguments, **options)

    def add_file_to_dictionary(self, url: str, path: str, stat_cache: dict[str, os.stat_result] | None = None) -> None:
        super().add_file_to_dictionary(url, path, stat_cache)
        self._found[url] = path, _version(stat_cache[path] if stat_cache else os.stat(path))

    def __call__(self, request: HttpRequest) -> Any:
        url = request.path_info
        if url in self.files:
            path, known = self._found[url]
            try:
                if _version(os.stat(path)) != known:
                    self.add_file_to_dictionary(url, path)
            except FileNotFoundError:
                return self.get_response(request)
        return super().__call__(request)


def _version(stat: os.stat_result) -> Version:
    return stat.st_mtime_ns, stat.st_size
