"""Sentences about alerts: English in the API and the history, in the instance's language in messages."""

from django.utils.translation import gettext, gettext_noop

STATES = (
    gettext_noop("stalled"),
    gettext_noop("stopped"),
    gettext_noop("falling behind"),
    gettext_noop("unknown"),
    gettext_noop("catching up"),
    gettext_noop("ok"),
)
"""The states of a group, which are sentences about it."""


class Sentence(str):
    """A sentence in English that can be translated: a template with {0}, {1} …, and the values of these places.

    A value that is a Sentence is translated too. The template must be marked with gettext_noop where it is written.
    """

    __slots__ = ("template", "values")
    template: str
    values: tuple[str, ...]

    def __new__(cls, template: str, *values: str) -> "Sentence":
        sentence = super().__new__(cls, template.format(*values))
        sentence.template, sentence.values = template, values
        return sentence


def localized(text: str) -> str:
    """A sentence in the language that is active now. A plain string, as of an alert of an earlier process, stays."""
    if not isinstance(text, Sentence):
        return text
    return gettext(text.template).format(*map(localized, text.values))
