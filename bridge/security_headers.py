"""The security headers of every answer: pages, API, and what the web server refuses by itself.

Pages need nothing but this host: no inline script, no inline style, no other origin. An answer that sets one of these
headers itself keeps its own value, as a report's page does with its policy.
"""

from typing import Final

_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src {connect}; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def security_headers(host: str = "") -> dict[bytes, bytes]:
    """The headers by lower-case name. ``host`` is the request's Host header if it is one of this broker's, else empty.

    The policy names the address of the WebSockets, because in some browsers ``'self'`` does not include ``ws:``.
    """
    connect = f"'self' ws://{host} wss://{host}" if host else "'self'"
    return _HEADERS | {b"content-security-policy": _POLICY.format(connect=connect).encode("latin-1")}
