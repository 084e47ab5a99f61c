"""Template tags for all pages."""

from typing import Any

from django import template
from django.conf import settings

from dashboard.navigation import NAVIGATION, guide_path, is_current

register = template.Library()


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
