"""Reading a scope."""

from api.http.asgi import header


def test_the_first_of_a_header_counts_and_a_missing_one_is_empty() -> None:
    scope = {"headers": [(b"host", b"a"), (b"host", b"b"), (b"x", b"\xe4")]}
    assert (header(scope, b"host"), header(scope, b"x"), header(scope, b"y")) == ("a", "ä", "")
