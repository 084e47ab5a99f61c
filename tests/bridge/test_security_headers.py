from bridge.security_headers import security_headers


def policy(host: str = "") -> dict[str, str]:
    text = security_headers(host)[b"content-security-policy"].decode()
    return {name: value for name, _, value in (part.strip().partition(" ") for part in text.split(";"))}


def test_the_policy_allows_only_this_host() -> None:
    allowed = policy("localhost:8000")
    assert allowed["default-src"] == allowed["script-src"] == allowed["style-src"] == "'self'"
    assert allowed["frame-ancestors"] == allowed["object-src"] == allowed["base-uri"] == "'none'"
    assert allowed["connect-src"] == "'self' ws://localhost:8000 wss://localhost:8000"
    assert "unsafe" not in str(allowed)


def test_without_a_host_the_policy_names_none() -> None:
    assert policy()["connect-src"] == "'self'"
    assert security_headers()[b"x-content-type-options"] == b"nosniff"
