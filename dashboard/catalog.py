"""The texts of the pages' scripts in another language: Django's catalog, a script that runs before the others."""

from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import translation
from django.views.decorators.http import require_safe
from django.views.i18n import JavaScriptCatalog

YEAR_SECONDS = 365 * 24 * 3600


class Catalog(NamedTuple):
    """``version`` is a part of the address, so that a browser may keep the script for a year."""

    script: bytes
    version: str


@lru_cache(8)
def catalog_of(language: str) -> Catalog:
    """The catalog of a language of ``settings.LANGUAGES``."""
    with translation.override(language):
        response = JavaScriptCatalog(packages=["dashboard"]).get(HttpRequest())
    return Catalog(response.content, sha256(response.content).hexdigest()[:12])


@require_safe
def catalog(request: HttpRequest, language: str) -> HttpResponse:
    """The script, which defines ``django.gettext`` and ``django.ngettext``; 404 for a language that pages lack."""
    if language not in dict(settings.LANGUAGES):
        raise Http404(f"the pages have no language {language}")
    response = HttpResponse(catalog_of(language).script, content_type="text/javascript; charset=utf-8")
    response["Cache-Control"] = f"public, max-age={YEAR_SECONDS}, immutable"
    return response
