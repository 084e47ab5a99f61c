#!/usr/bin/env python
"""Every command of GlassMQ: ``python manage.py help`` lists them, ``manage.py broker`` starts a broker."""

import os
import sys


def main() -> None:
    """Run the command that the command line names."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if len(sys.argv) > 1 and sys.argv[1] in {"broker", "namesrv", "runworker"}:
        use_uvloop()
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(f"{error.name} is not installed: run `make setup`, then .venv/bin/python manage.py") from error
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        raise SystemExit(str(error)) from None


def use_uvloop() -> None:
    """Choose uvloop where it is installed; before Django starts, since daphne's app installs its reactor then."""
    try:
        import uvloop
    except ImportError:
        return
    import asyncio

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


if __name__ == "__main__":
    main()
