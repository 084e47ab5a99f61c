"""URLs of mail servers."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.mail import mail_server


@pytest.mark.parametrize(
    ("url", "port", "tls", "ssl"),
    [
        ("smtp://mail.example", 25, False, False),
        ("smtp+tls://mail.example", 587, True, False),
        ("smtp+ssl://mail.example", 465, False, True),
        ("smtp://mail.example:2525", 2525, False, False),
    ],
)
def test_the_scheme_says_how_it_is_encrypted(url: str, port: int, tls: bool, ssl: bool) -> None:
    found = mail_server(url)
    assert (found["EMAIL_PORT"], found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (port, tls, ssl)


def test_without_a_url_there_is_none() -> None:
    assert mail_server("") == {}


@pytest.mark.parametrize(
    "url",
    ["ftp://user:s3cret@mail.example", "smtp://", "smtp://u:s3cret@h:99999", "smtp://h/s3cret", "smtp://h?s3cret=1"],
)
def test_a_refusal_does_not_print_the_url(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="GLASSMQ_SMTP_URL must be") as refused:
        mail_server(url)
    assert "s3cret" not in str(refused.value)
