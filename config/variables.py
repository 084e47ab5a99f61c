"""The values of environment variables. A wrong one is refused with a sentence that names its variable."""

import re
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
KNOWN = {"GLASSMQ_PUBLISH", "GLASSMQ_URL"}  # read only by docker-compose.yml, and by the command line
"""The variables that there are: those that have been read."""
_env = environ.Env()
_NAMED_ADDRESS = re.compile(r"\s*([^=\s]+)=(\[[\da-fA-F:.]+\]|[^:\s]+):(\d{1,5})\s*")


def text(name: str, default: str = "") -> str:
    """The variable's value, or the default if it is empty or not set."""
    KNOWN.add(name)
    value: str = _env.str(name, default=default).strip()
    return value or default


def number(name: str, default: int, minimum: int, maximum: int) -> int:
    """A whole number between ``minimum`` and ``maximum``."""
    value = text(name, str(default))
    if not value.isascii() or not value.isdigit() or not minimum <= int(value) <= maximum:
        raise ImproperlyConfigured(f"{name} must be a whole number from {minimum} to {maximum}, not {value!r}.")
    return int(value)


def switch(name: str) -> bool:
    """Whether the variable is 1; it must be 1, 0 or not set."""
    value = text(name, "0")
    if value not in {"0", "1"}:
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}.")
    return value == "1"


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """The variable's value, which must be one of ``allowed``."""
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def folder(name: str, default: Path) -> Path:
    """An absolute path, or that of a ``file:`` URL; relative ones start at the project, ``~`` is the home folder."""
    value = text(name)
    if "://" in value:
        url = urlsplit(value)
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            raise ImproperlyConfigured(f"{name} must be a path or a file:// URL, not {value!r}.")
        value = unquote(url.path)
    return (BASE_DIR / Path(value).expanduser()).resolve() if value else default


def lake_location(name: str, default: Path) -> Path | str:
    """A folder as ``folder`` has it, or an ``s3://BUCKET/FOLDER`` URL without a ``/`` at its end."""
    url = urlsplit(text(name))
    if url.scheme != "s3":
        return folder(name, default)
    if not url.netloc or not url.path.strip("/") or url.query or url.fragment:
        raise ImproperlyConfigured(f"{name} must be a path, a file:// URL, or s3://BUCKET/FOLDER, not {text(name)!r}.")
    return f"s3://{url.netloc}/{url.path.strip('/')}"


def named_addresses(name: str) -> dict[str, tuple[str, int]]:
    """(host, port) by broker name, of ``broker-a=host:port``, several separated by commas."""
    addresses = {}
    for entry in filter(None, text(name).split(",")):
        match = _NAMED_ADDRESS.fullmatch(entry)
        if match is None or not 0 < int(match[3]) < 65_536:
            raise ImproperlyConfigured(
                f"{name} must be broker=host:port, or several separated by commas, not {entry!r}."
            )
        addresses[match[1]] = (match[2].strip("[]"), int(match[3]))
    return addresses


def database_url(name: str) -> dict[str, Any]:
    """Django's settings of the database at this URL; empty if the variable is."""
    if not text(name):
        return {}
    with warnings.catch_warnings(action="ignore"):  # they print the URL, which may contain a password
        config: dict[str, Any] = _env.db_url(name)
    if not config.get("ENGINE"):
        raise ImproperlyConfigured(f"{name} must be a database URL such as postgres://user:password@host:5432/name.")
    return config
