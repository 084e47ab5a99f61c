"""The command ``glassmq``, for any RocketMQ cluster, and what only GlassMQ can show.

The command is a part of ``broker_core``, on top of its client, because it needs no Django and no broker: from a wheel
without extras it has all that it needs. ``up`` is the exception: it starts the whole broker, as another program.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from broker_core.cli.bench import bench
from broker_core.cli.cluster import groups, lag, reset_offset, topics
from broker_core.cli.consume import consume, tail
from broker_core.cli.doctor import doctor
from broker_core.cli.errors import FAILED, INTERRUPTED, USAGE, CommandError, OutputError
from broker_core.cli.messages import logdump, message
from broker_core.cli.output import log_handler, print_line
from broker_core.cli.produce import produce
from broker_core.cli.target import shared_options
from broker_core.cli.top import top
from broker_core.cli.waiting import holds, timeline, why
from broker_core.version import VERSION

NAME, INSTALLED = "glassmq", "glassmq_broker"
APPLICATION_FOLDERS = (Path(__file__).parents[2] / INSTALLED, Path(__file__).parents[2])
"""Where ``manage.py`` is: in a folder of its own in a wheel, beside ``broker_core`` in a checkout."""
FOLDER_VARIABLES = ("GLASSMQ_DATA_DIR", "GLASSMQ_STORE_DIR", "GLASSMQ_LAKE_DIR", "GLASSMQ_BROKER_CONF")


class Commands(click.Group):
    """The commands in the order in which they are added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with reader_gone():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with reader_gone():
            return super().invoke(ctx)


@contextmanager
def reader_gone() -> Iterator[None]:
    """Turns BrokenPipeError into OutputError. Click would end the program with exit code 1, and without a word."""
    try:
        yield
    except BrokenPipeError as error:
        raise OutputError(error) from error


@click.group(
    cls=Commands,
    params=shared_options(hidden=False),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, 3 no server answers, 4 not found, 5 not "
    "possible with this broker, 130 interrupted.",
)
@click.version_option(VERSION, prog_name=NAME)
def glassmq() -> None:
    """Produce to, consume from and inspect a RocketMQ or GlassMQ cluster."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def up(arguments: tuple[str, ...]) -> None:
    """Start a broker with its dashboard, until Ctrl-C; what `make run` does.

    An installed glassmq keeps its data in ./glassmq-data, unless GLASSMQ_DATA_DIR names another folder.
    ARGUMENTS: --cluster starts as many brokers as GLASSMQ_BROKERS says; --no-schedules leaves scheduled reports out;
    --no-migrate leaves the database as it is.
    """
    folder = next((folder for folder in APPLICATION_FOLDERS if (folder / "manage.py").is_file()), None)
    if folder is None or find_spec("django") is None:
        raise CommandError("the packages that a broker needs are not installed; run: pip install 'glassmq[broker]'")
    environment = dict(os.environ)
    if folder.name == INSTALLED:
        environment |= folders_of_user(environment, Path.cwd())
    sys.stdout.flush()
    command = [sys.executable, str(folder / "manage.py"), "broker", *arguments]
    os.execve(sys.executable, command, environment)


def folders_of_user(environment: Mapping[str, str], here: Path) -> dict[str, str]:
    """The variables with folders, which begin at ``here``, not in the folder of the installed program."""
    values = {name: environment.get(name, "") for name in FOLDER_VARIABLES}
    values["GLASSMQ_DATA_DIR"] = values["GLASSMQ_DATA_DIR"] or "glassmq-data"
    return {
        name: str(here / Path(value).expanduser()) for name, value in values.items() if value and "://" not in value
    }


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the code that completes `glassmq` in a SHELL; it is to be evaluated there."""
    kind = get_completion_class(shell)
    assert kind is not None
    print_line(kind(glassmq, {}, NAME, "_GLASSMQ_COMPLETE").source())


for _command in (
    produce,
    consume,
    tail,
    topics,
    groups,
    lag,
    why,
    holds,
    top,
    message,
    timeline,
    reset_offset,
    logdump,
    doctor,
    bench,
    up,
    completion,
):
    glassmq.add_command(_command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code. Errors are printed to standard error."""
    try:
        result: Any = glassmq.main(arguments, prog_name=NAME, standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:  # such as a file that cannot be read, or a full disk behind the text of --help
        CommandError(str(error)).show()
        return FAILED
    return result if isinstance(result, int) else 0


def flush_output() -> None:
    """Write what is buffered for standard output, or let it go nowhere, so that Python's exit does not fail on it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # the command has reported it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """The entry point of the program."""
    logging.getLogger("broker_core").addHandler(log_handler)
    code = run()
    flush_output()
    sys.exit(code)
