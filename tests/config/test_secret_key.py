"""The key is created once; tests/config/test_settings.py lets processes start together."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.secret_key import keep_secret_key


def test_the_key_stays_the_same_and_belongs_to_its_owner(tmp_path: Path) -> None:
    key = keep_secret_key(tmp_path / "key")
    assert len(key) >= 50 and keep_secret_key(tmp_path / "key") == key
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="GLASSMQ_SECRET_KEY"):
        keep_secret_key(tmp_path / "missing" / "key")
