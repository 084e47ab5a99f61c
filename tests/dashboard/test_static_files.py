"""Static files that change while the server runs are served whole."""

from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from dashboard.static_files import StaticFiles


@pytest.fixture
def script(settings: Any, tmp_path: Path) -> Path:
    settings.STATICFILES_DIRS = [tmp_path]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    path = tmp_path / "page.js"
    path.write_text("old")
    return path


def not_found(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=404)


def answer(files: StaticFiles, **headers: str) -> tuple[int, bytes, str]:
    response = files(RequestFactory().get("/static/page.js", headers=headers))
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return response.status_code, content, response.headers.get("Content-Length", "")


def test_a_file_that_has_grown_is_served_whole(script: Path) -> None:
    files = StaticFiles(not_found)
    assert answer(files) == (200, b"old", "3")
    script.write_text("new and longer")
    assert answer(files) == (200, b"new and longer", "14")
    script.write_text("new")
    assert answer(files) == (200, b"new", "3")
    assert answer(files, range="bytes=0-1") == (206, b"ne", "2")


def test_a_file_that_is_gone_is_not_found_until_it_is_back(script: Path) -> None:
    files = StaticFiles(not_found)
    script.unlink()
    assert answer(files)[0] == 404
    script.write_text("back")
    assert answer(files) == (200, b"back", "4")
