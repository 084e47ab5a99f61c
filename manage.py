#!/usr/bin/env python
"""Every command of GlassMQ: ``python manage.py help`` lists them, ``manage.py broker`` starts a broker."""

import os
import select
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
    except BrokenPipeError:
        if not is_reader_gone():
            raise
    finally:
        flush_output()


def is_reader_gone() -> bool:
    """Whether nobody reads standard output any more, because a reader such as ``head`` has enough."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def flush_output() -> None:
    """Write what is buffered, or let it go nowhere if nobody reads it, so that Python's exit does not fail on it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
