"""The errors and exit codes of the command ``glassmq``.

0    done
1    refused by a server, or failed on the way
2    wrong arguments
3    no server answers
4    the topic, group or message does not exist
5    the broker cannot do this, such as holds of Apache RocketMQ
130  interrupted by Ctrl-C
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from broker_core.client import MQBrokerException, MQClientException
from broker_core.codes import ResponseCode

FAILED, USAGE, UNREACHABLE, NOT_FOUND, NOT_POSSIBLE, INTERRUPTED = 1, 2, 3, 4, 5, 130

_MISSING = frozenset(
    (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.QUERY_NOT_FOUND,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.CONSUMER_NOT_ONLINE,
    )
)


class CommandError(click.ClickException):
    """Ends the command with ``exit_code``. The message says what is wrong and what to do."""

    exit_code: int  # type: ignore[misc]  # click has one for each class

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"glassmq: {self.message}", file=file or sys.stderr)


class OutputError(CommandError):
    """Standard output cannot be written to. If its reader, such as ``head``, has enough, that is no failure."""

    def __init__(self, problem: OSError | str, note: str = "") -> None:
        self._problem = problem
        self._reader_gone = isinstance(problem, BrokenPipeError)
        reason = problem if isinstance(problem, str) else problem.strerror or str(problem)
        super().__init__(f"standard output cannot be written to: {reason}{note}", 0 if self._reader_gone else FAILED)

    def with_note(self, note: str) -> "OutputError":
        """The error with ``note`` at the end of its message."""
        return OutputError(self._problem, note)

    def show(self, file: IO[Any] | None = None) -> None:
        if not self._reader_gone:
            super().show(file)


def no_server(what: str, address: str, option: str, error: object) -> CommandError:
    """The error for a server that does not answer."""
    return CommandError(
        f"no {what} answers at {address} ({error}). Start a broker with `glassmq up`, or name another address "
        f"with {option}.",
        UNREACHABLE,
    )


@contextmanager
def client_errors() -> Iterator[None]:
    """Turns the errors of the client into CommandError."""
    try:
        yield
    except MQBrokerException as error:
        code, text = FAILED, str(error)
        if error.response_code in _MISSING:
            code = NOT_FOUND
            text = text.partition("\n")[0]  # the rest is a link to RocketMQ's FAQ
        elif error.response_code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            code = NOT_POSSIBLE
        raise CommandError(text, code) from error
    except MQClientException as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"the server does not answer: {error}", UNREACHABLE) from error
