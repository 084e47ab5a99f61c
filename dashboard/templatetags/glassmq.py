"""Template tags for all pages."""

import re
from typing import Any

from django import template
from django.conf import settings
from django.utils.translation import get_language

from dashboard.catalog import catalog_of
from dashboard.navigation import NAVIGATION, guide_path, is_current

register = template.Library()
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""The same as UNSEEN in ``static/js/text/format.js``."""


@register.filter
def visible(text: str) -> str:
    """Text from outside, in which characters that hide or turn text are shown by their codes: ⟨U+202E⟩."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


@register.simple_tag
def attached_to() -> str:
    """The name servers of the cluster whose brokers are followed; empty if the brokers are our own."""
    return str(settings.GLASSMQ_ATTACH)


@register.simple_tag
def catalog_path() -> str:
    """The path of the catalog for the texts of the page's scripts; empty for English, which needs none."""
    language = get_language() or "en"
    return "" if language == "en" else f"/catalog/{language}.js?v={catalog_of(language).version}"


@register.inclusion_tag("dashboard/navigation.html", takes_context=True)
def navigation(context: dict[str, Any]) -> dict[str, Any]:
    """The links of the header. Also works without a request, as on the login page and on error 500."""
    request = context.get("request")
    path = request.path if request is not None else ""
    return {
        "items": [(item, is_current(item, path)) for item in NAVIGATION],
        "guide": guide_path(path),
        "is_guide": path == "/guide" or path.startswith("/guide/"),
        "signs_out": request is not None and bool(settings.GLASSMQ_API_TOKEN),
    }
