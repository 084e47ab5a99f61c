"""An S3 on this machine, by moto, in a process of its own; it may fail every tenth call as a busy S3 does.

It needs a process of its own, because delta-rs keeps Python's interpreter locked while it waits for an answer.
"""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import PROJECT

BUCKET = "glassmq"
BUSY = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def failing(application: Wsgi, fail_every: int) -> Wsgi:
    """An application that answers every ``fail_every``-th call with 503; 0: none."""
    calls = itertools.count(1)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not fail_every or next(calls) % fail_every:
            return application(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(BUSY)))])
        print("failed", flush=True)
        return [BUSY]

    return answer


def serve(fail_every: int) -> None:
    """Print the port, then serve until the process is ended."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_request(self, *_: object) -> None:
            """Nothing."""

    application = failing(DomainDispatcherApplication(create_backend_app), fail_every)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def s3_server(fail_every: int = 0) -> Iterator[str]:
    """The URL of a folder in a bucket, in an environment in which all clients find the server.

    Skips where moto is not installed. Checks at the end that calls have failed if they were to.
    """
    pytest.importorskip("moto")
    from pyarrow.fs import S3FileSystem

    command = [sys.executable, "-m", "tests.fakes.s3_server", str(fail_every)]
    with (
        subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        assert server.stdout is not None
        try:
            endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
            for name, value in {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
            }.items():
                patch.setenv(name, value)
            S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True).create_dir(BUCKET)
            yield f"s3://{BUCKET}/lakes"
        finally:
            server.kill()
        assert ("failed" in server.stdout.read()) == bool(fail_every)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
