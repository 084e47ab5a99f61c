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

VERDICTS: dict[str, str] = {
    "pulls_refused": gettext_noop("pulls refused"),
    "no_member": gettext_noop("no member"),
    "may_not_consume": gettext_noop("may not consume"),
    "every_message_fails": gettext_noop("every message fails"),
    "heartbeat_late": gettext_noop("heartbeat late"),
    "listener_blocked": gettext_noop("listener blocked"),
    "not_acknowledged": gettext_noop("not acknowledged"),
    "no_permits": gettext_noop("no permits"),
    "not_pulling": gettext_noop("not pulling"),
    "locked_by_another": gettext_noop("locked by another"),
    "stands_still": gettext_noop("stands still"),
    "subscriptions_disagree": gettext_noop("subscriptions disagree"),
    "filter_rejects_all": gettext_noop("filter rejects all"),
    "topic_missing": gettext_noop("topic missing"),
    "topic_not_subscribed": gettext_noop("topic not subscribed"),
    "pulled_by_another": gettext_noop("pulled by another"),
    "offset_deleted": gettext_noop("offset deleted"),
    "offset_beyond_end": gettext_noop("offset beyond the end"),
    "falling_behind": gettext_noop("falling behind"),
    "some_messages_fail": gettext_noop("some messages fail"),
}
"""The errors and warnings about a group, in a few words."""


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
