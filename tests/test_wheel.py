"""The wheel that ``make wheel`` builds, installed into an empty environment and used in an empty folder.

Nothing is downloaded: what the wheel depends on is taken from the environment of the tests.
"""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from broker_core.testing.running_broker import RunningBroker, free_ports
from broker_core.version import VERSION
from tests.conftest import PROJECT
from tests.fakes.ports import unused_broker_port

METADATA = tomllib.loads((PROJECT / "pyproject.toml").read_text())
BASE = [Requirement(text) for text in METADATA["project"]["dependencies"]]
BROKER = [Requirement(text) for text in METADATA["project"]["optional-dependencies"]["broker"]]
BASE_MODULES = ("click", "lz4", "markdown_it", "mdurl", "msgspec", "pygments", "rich", "zstandard")
"""What pip installs for the base: its dependencies and theirs."""
START_SECONDS = 120
IN_WHEEL = (
    "alerts",
    "api",
    "bridge",
    "broker_core",
    "config",
    "dashboard",
    "docs",
    "spark_jobs",
    "static",
    "templates",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.iterdir()
    return built


def install(wheel: Path, folder: Path, modules: tuple[str, ...] | None) -> Path:
    """Install the wheel into a new environment with these modules beside it, or all; returns its ``bin``."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/*/site-packages")
    site = Path(pytest.__file__).parents[1]
    if modules is None:
        (packages / "all.pth").write_text(f"{site}\n")
    for module in modules or ():
        for path in (site / module, *site.glob(f"{module}.*.so")):
            if path.exists():
                (packages / path.name).symlink_to(path)
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--python", folder, wheel],
        check=True,
        capture_output=True,
    )
    return folder / "bin"


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("base"), BASE_MODULES)


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("whole"), None)


def clean(**more: str) -> dict[str, str]:
    """The environment without what would find the checkout or change the broker."""
    prefixes = ("GLASSMQ_", "DJANGO_", "PYTHON", "NAMESRV_")
    return {name: text for name, text in os.environ.items() if not name.startswith(prefixes)} | more


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_contains_every_file_of_the_broker_and_no_other(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *IN_WHEEL],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = {name for name in listed.stdout.splitlines() if (PROJECT / name).is_file()}
    wanted = {name if name.startswith("broker_core/") else f"glassmq_broker/{name}" for name in files}
    more = {"manage.py", "requirements/base.txt", "requirements/spark.txt"}
    wanted |= {f"glassmq_broker/{name}" for name in more}
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert wheel.name == f"glassmq-{VERSION}-py3-none-any.whl"
    assert "broker_core/py.typed" in names


def test_its_requirements_are_those_of_make_setup() -> None:
    """Each version that is tested is one that the wheel accepts."""
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", (PROJECT / "requirements" / "base.in").read_text(), re.MULTILINE))
    accepted = {requirement.name: requirement.specifier for requirement in (*BASE, *BROKER)}
    assert accepted.keys() == pinned.keys()
    assert [name for name, version in pinned.items() if version not in accepted[name]] == []


def test_the_base_produces_and_consumes_without_django(base: Path, tmp_path: Path) -> None:
    code = "from importlib.util import find_spec; print([*filter(find_spec, ('django', 'uvloop', 'celery', 'config'))])"
    assert run(base / "python", "-c", code, cwd=tmp_path) == "[]\n"
    with RunningBroker() as broker:
        command = (base / "glassmq", "--namesrv", broker.namesrv_addr)
        run(*command, "produce", "orders", "--body", "hello", cwd=tmp_path)
        out = run(*command, "consume", "orders", "--group", "g", "--from", "first", "--count", "1", cwd=tmp_path)
    assert out.startswith("orders ") and out.endswith(" hello\n")
    done = subprocess.run([base / "glassmq", "up"], cwd=tmp_path, env=clean(), capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'glassmq[broker]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_pytest_finds_the_plugin(whole: Path, tmp_path: Path) -> None:
    code = "from importlib.metadata import entry_points as e; print(e(group='pytest11')['glassmq'].load().__name__)"
    assert run(whole / "python", "-c", code, cwd=tmp_path) == "broker_core.testing.pytest_plugin\n"


@pytest.fixture
def running(whole: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """``glassmq up`` in an empty folder: its process, its web address, its name server."""
    web, namesrv = free_ports(2)
    ports = {"WEB": web, "NAMESRV": namesrv, "BROKER": unused_broker_port()}
    environment = clean(**{f"GLASSMQ_{name}_PORT": str(port) for name, port in ports.items()})
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [whole / "glassmq", "up", "--no-schedules"], cwd=tmp_path, env=environment, stdout=log, stderr=log
        )
    try:
        yield process, f"http://127.0.0.1:{web}", f"127.0.0.1:{namesrv}"
    finally:
        process.kill()
        process.wait()


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_up_is_the_whole_broker(whole: Path, running: tuple[subprocess.Popen[bytes], str, str], tmp_path: Path) -> None:
    process, web, namesrv = running
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            fetch(f"{web}/readyz")
            break
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.05)
    page = fetch(f"{web}/")
    for asset in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        assert fetch(web + asset)
    assert "GlassMQ" in page and fetch(f"{web}/api/docs") and fetch(f"{web}/groups")
    command = (whole / "glassmq", "--namesrv", namesrv, "--url", web)
    run(*command, "produce", "orders", "--body", "hello", cwd=tmp_path)
    assert "orders" in run(*command, "topics", cwd=tmp_path)
    assert run(*command, "doctor", cwd=tmp_path).count("error") == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, (tmp_path / "log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["glassmq-data", "log"]
    assert (tmp_path / "glassmq-data" / "store" / "commitlog").is_dir()
