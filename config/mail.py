"""The mail server of alerts, from its URL."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def mail_server(url: str) -> dict[str, Any]:
    """Django's ``EMAIL_...`` settings for ``smtp://user:password@host:port``; none for an empty URL.

    ``smtp+tls://`` begins without TLS and asks for it, ``smtp+ssl://`` begins with it. The URL is never printed: it may
    contain a password.
    """
    if not url:
        return {}
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if parts.scheme not in {"smtp", "smtp+tls", "smtp+ssl"} or not host or parts.path.strip("/") or parts.query:
        raise ImproperlyConfigured(
            "GLASSMQ_SMTP_URL must be smtp://host:25, smtp+tls://user:password@host:587 or "
            "smtp+ssl://user:password@host:465; in a password, write %40 for @, %2F for / and %3A for a colon."
        )
    return {
        "EMAIL_HOST": host,
        "EMAIL_PORT": port or {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
        "EMAIL_USE_SSL": parts.scheme == "smtp+ssl",
    }
