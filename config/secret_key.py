"""Django's secret key, kept in the data folder."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def keep_secret_key(path: Path) -> str:
    """The key in ``path``, created once, readable by its owner only. Processes that start together get the same."""
    try:
        if not path.exists():
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(48))
            try:
                os.link(draft, path)  # unlike rename, this never replaces the key of a faster process
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"The secret key cannot be stored in {path} ({error.strerror}): set GLASSMQ_SECRET_KEY, or set "
            "GLASSMQ_DATA_DIR to a folder that this user can write to."
        ) from error
