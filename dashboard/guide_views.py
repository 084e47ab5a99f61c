"""The pages of the guide."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from dashboard import guide


@require_safe
def chapter(request: HttpRequest, name: str = guide.FIRST) -> HttpResponse:
    """One chapter beside the list of all."""
    language = get_language() or "en"
    try:
        shown = guide.chapter(name, language)
    except KeyError as error:
        raise Http404(f"the guide has no chapter {name}") from error
    chapters = [(other, guide.chapter(other, language).title) for other in guide.names()]
    return render(request, "dashboard/guide.html", {"name": name, "chapter": shown, "chapters": chapters})
