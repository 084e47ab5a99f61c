"""``manage.py options``: every option of the broker with its default; ``--markdown`` writes docs/options.md."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand

from broker_core.options import DESCRIPTIONS, PYTHON_NAMES, Options

HEAD = """\
# The broker's options

RocketMQ's names and, unless the description says otherwise, RocketMQ's defaults. They are set in a `broker.conf`
(lines of `name=value`) that `GLASSMQ_BROKER_CONF` names. Options that a running broker may change are changed with
`PATCH /api/v1/broker/config` too, until it restarts.

This file is written by `.venv/bin/python manage.py options --markdown > docs/options.md`.

| option | default | takes | while it runs | meaning |
|---|---|---|---|---|
"""


class Command(BaseCommand):
    """Reads what ``broker_core.options`` says of itself, so that the page cannot drift from the code."""

    help = "List the broker's options with their values here, or write docs/options.md."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--markdown", action="store_true", help="the page docs/options.md, with the defaults")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(markdown() if options["markdown"] else in_force(), ending="")


def in_force() -> str:
    """``name=value`` lines as in a broker.conf: what this broker would start with."""
    values: Options = settings.GLASSMQ_OPTIONS
    return "".join(f"{name}={written(getattr(values, field))}\n" for name, field in PYTHON_NAMES.items())


def markdown() -> str:
    """The page, from the descriptions of the options."""
    defaults = Options()
    return HEAD + "".join(
        f"| `{name}` | {code(written(getattr(defaults, PYTHON_NAMES[name])))} | {takes(about)} "
        f"| {'yes' if about['changeable'] else ''} | {about.get('description', '')} |\n"
        for name, about in DESCRIPTIONS.items()
    )


def written(value: Any) -> str:
    """A value as a broker.conf has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def code(text: str) -> str:
    """Markdown for a value; nothing for an empty one."""
    return f"`{text}`" if text else ""


def takes(about: dict[str, Any]) -> str:
    """What the option accepts, in words."""
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    if about["type"] == "boolean":
        return "`true`, `false`"
    if about["type"] == "integer":
        least, most = about.get("minimum"), about.get("maximum")
        return f"{least} to {most}" if most is not None else f"{least} or more"
    return f"text like `{about['pattern']}`".replace("|", "\\|") if "pattern" in about else "text"
