"""GlassMQ's HTTP API, as the command line uses it: JSON in, JSON out."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from broker_core.cli.errors import FAILED, NOT_FOUND, NOT_POSSIBLE, UNREACHABLE, CommandError

TIMEOUT_S = 10.0
MAX_ANSWER = 64 << 20
"""Bytes of an answer that are read at most."""
REMARK_CHARACTERS = 500


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could take the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class GlassmqApi:
    """The API at ``url``, such as ``http://127.0.0.1:8000``. Its calls raise CommandError."""

    def __init__(self, url: str, token: str = "") -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise CommandError(f"--url must be an address such as http://127.0.0.1:8000, not {url!r}", exit_code=2)
        self.url = url.rstrip("/")
        self._headers = {"accept": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)

    def get(self, path: str, *names: str, **query: object) -> Any:
        """``names`` replace the ``{}`` of the path, quoted. Members of ``query`` that are empty are left out."""
        return self._call("GET", self._address(path, names, query), None)

    def post(self, path: str, *names: str, body: object) -> Any:
        return self._call("POST", self._address(path, names, {}), json.dumps(body).encode())

    def _address(self, path: str, names: tuple[str, ...], query: dict[str, object]) -> str:
        address = self.url + path.format(*(urllib.parse.quote(name, safe="") for name in names))
        texts = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{address}?{urllib.parse.urlencode(texts)}" if texts else address

    def _call(self, method: str, address: str, body: bytes | None) -> Any:
        headers = self._headers | ({"content-type": "application/json"} if body is not None else {})
        request = urllib.request.Request(address, body, headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                data = answer.read(MAX_ANSWER + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise CommandError(
                f"GlassMQ's HTTP API does not answer at {self.url} ({reason}). This command needs it: RocketMQ's own "
                "protocol does not report what it shows, so it cannot work with Apache RocketMQ. If the broker is "
                "GlassMQ, name its web address with --url.",
                UNREACHABLE,
            ) from error
        if len(data) > MAX_ANSWER:
            raise CommandError(f"the answer of {self.url} is larger than {MAX_ANSWER >> 20} MiB")
        try:
            return json.loads(data)
        except ValueError as error:
            raise CommandError(
                f"{self.url} answers, but not as GlassMQ does ({error}). Is another program at this address?",
                NOT_POSSIBLE,
            ) from error

    def _refused(self, error: urllib.error.HTTPError) -> CommandError:
        """The error for an answer that is not a success, by its problem+json."""
        try:
            problem = json.loads(error.read(MAX_ANSWER))
            detail = f"{problem.get('detail') or problem['title']}"
        except (ValueError, KeyError, AttributeError, TypeError, OSError):
            detail = f"HTTP {error.code} {error.reason}; is this GlassMQ?"
        if error.code == 401:
            detail += " (--token, or the variable GLASSMQ_API_TOKEN)"
        code = {404: NOT_FOUND, 503: UNREACHABLE, 504: UNREACHABLE}.get(error.code, FAILED)
        return CommandError(with_options(detail)[:REMARK_CHARACTERS], code)


def with_options(text: str) -> str:
    """A text of the API, with the option of the command line in place of the parameter of the API."""
    return text.replace("?broker=", "--broker")
