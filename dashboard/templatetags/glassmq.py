"""Template tags for all pages."""

from typing import Any

from django import template

from dashboard.navigation import NAVIGATION, is_current

register = template.Library()


@register.inclusion_tag("dashboard/navigation.html", takes_context=True)
def navigation(context: dict[str, Any]) -> dict[str, Any]:
    """The links of the header. Also works without a request, as on the page of error 500."""
    request = context.get("request")
    path = request.path if request is not None else ""
    return {"items": [(item, is_current(item, path)) for item in NAVIGATION]}
