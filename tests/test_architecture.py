"""The habits that keep the project readable, as tests. Each failure says what to do instead.

The direction of the imports between the rooms is held by import-linter (``.importlinter``).
"""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from tests.conftest import PROJECT
from tests.mutants import load_mutants, misfit

ROOMS = ("config", "alerts", "api", "dashboard", "spark_jobs", "bridge", "broker_core")
FUNCTION_LINES = 70
MODULE_LINES = 500
FOLDER_MODULES = 25
FLOORS = 10
SUBJECT_LETTERS = 72
FIRST_CHECKED_COMMIT = "4c6d532"
"""The subjects of this commit's descendants are checked; older ones are as they are."""

NO_TEST_OF_ITS_OWN = {
    "apps.py": "declares an app to Django, which loads it at every start",
    "bridge/management/commands/broker.py": "run as a real process in tests/test_commands.py",
    "bridge/management/commands/engine_ready.py": "run as a real process in tests/test_commands.py",
    "bridge/management/commands/options.py": "run as a real process in tests/test_docs.py",
    "bridge/management/commands/request_codes.py": "run in tests/test_docs.py",
    "bridge/management/commands/verdicts.py": "run in tests/test_docs.py",
    "broker_core/client/consumer/mq_consumer_inner.py": "protocols alone; mypy holds the consumers to them",
    "broker_core/client/producer/outgoing.py": "one struct",
    "broker_core/processor_table.py": "one table; tests/broker_core/commands/test_commands.py holds that it is whole",
    "broker_core/version.py": "one constant",
    "spark_jobs/errors.py": "names of errors alone",
    "spark_jobs/reports/shape.py": "structs alone; tests/spark_jobs/reports/test_reports.py holds every report to them",
} | {
    f"broker_core/commands/{name}.py": "structs alone; tests/broker_core/commands/test_commands.py holds the whole set"
    for name in (
        "admin",
        "base",
        "clients",
        "group_facts",
        "groups",
        "messages",
        "metrics",
        "observe",
        "offsets",
        "pop",
        "replicate",
        "running_info",
        "topics",
    )
}
"""Source files (by name, or by path) that need no test file beside them, and why."""
NO_TEST_OF_ITS_OWN |= {
    f"broker_core/events/{name}.py": "structs alone; tests/broker_core/events/test_events.py reads them all"
    for name in ("base", "broker", "clients", "messages", "pulls")
}

TESTS_WITHOUT_A_SOURCE = {
    "tests/dashboard/test_translations.py": "the catalogs, and the texts of templates and scripts",
    "tests/dashboard/test_verdict_samples.py": "verdict_samples.json, with the verdicts of the server",
    "tests/dashboard/test_server_texts.py": "static/js/text/server, with the words of the server",
    "tests/broker_core/client/producer/test_request.py": "requests and replies through all of the client",
    "tests/api/resources/test_monitoring.py": "the files in docs/monitoring, which ask for what the metrics page has",
    "tests/broker_core/server/test_spoiled_requests.py": "the whole broker, with clients that send nonsense",
    "tests/config/test_compose.py": "docker-compose.yml and Dockerfile",
    "tests/broker_core/processors/timer/test_timer_request.py": "what schedule_message.py does for an exact time",
    "tests/broker_core/store/test_crashes.py": "the whole store, with power cuts",
    "tests/broker_core/store/test_golden_store.py": "the whole store, on files that Apache RocketMQ wrote",
    "tests/broker_core/remoting/test_golden_frames.py": "the codec, on frames that stock clients and RocketMQ sent",
    "tests/broker_core/server/test_broker_over_tcp.py": "a whole broker, its runner, sessions and server together",
    "tests/dashboard/test_addresses.py": "what the addresses of all pages keep, in a browser",
    "tests/dashboard/test_alerts_page.py": "the page of alerts in a browser",
    "tests/dashboard/test_attached_pages.py": "the pages of an attached broker in a browser",
    "tests/dashboard/test_group_pages.py": "the pages of connections and groups in a browser",
    "tests/dashboard/test_page.py": "the live page in a browser",
    "tests/dashboard/test_scripts.py": "static/js, with node's test runner",
    "tests/dashboard/test_vendor.py": "static/vendor",
    "tests/spark_jobs/spark/test_connect_server.py": "reports and the lake at a real Spark Connect server",
    "tests/spark_jobs/lake/test_lake_interrupted.py": "filling a lake, by a real process that is interrupted",
    "tests/spark_jobs/lake/test_overlapping_fills.py": "two fills of a lake at a time",
    "tests/spark_jobs/spark/test_standalone_cluster.py": "reports on a real Spark cluster",
    "tests/spark_jobs/reports/test_headlines.py": "the headlines of all reports beside their tables",
    "tests/spark_jobs/test_several_brokers.py": "reports over the stores of several brokers",
}
"""Test files in a room's folder that test something else than a module of the same name."""

LONG_MODULES: dict[str, str] = {}
"""Modules that may be longer than others, and the reason why their story is still one."""

LONG_FUNCTIONS: dict[str, str] = {
    "spark_jobs/run.py:run_report": "the steps of a run, in order",
    "tests/api/websockets/test_events.py:test_a_delta_has_every_change": "one expected frame, one field per line",
    "tests/compat/test_real_name_server.py:dialogue": "the requests of one dialogue, in order",
    "tests/dashboard/fake_groups.py:busy": "one group, one field per line",
    "tests/dashboard/fake_groups.py:broken": "one group, one field per line",
}
"""``path:function`` that may be longer, and why."""

MAY_READ_CLOCKS = {"broker_core/clock.py"}
MAY_TOUCH_THE_ENVIRONMENT = {
    "config/settings.py": "the one place that reads it",
    "config/asgi.py": "names the settings module to Django",
    "config/celery.py": "names the settings module to Django",
    "manage.py": "names the settings module to Django",
    "bridge/processes.py": "hands it on to child processes, with what is different for one of them",
    "broker_core/cli/main.py": "hands it on to the broker, with folders relative to the user's own",
    "spark_jobs/spark/session.py": "JAVA_HOME: Spark's launcher reads it from there and nowhere else",
}
MAY_KNOW_WHERE_SPARK_IS = {
    "spark_jobs/spark/progress.py",
    "spark_jobs/spark/session.py",
}
CLOCK = re.compile(
    r"\btime\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns)\b"
    r"|\bdatetime\.(now|utcnow)\("
)
ENVIRONMENT = re.compile(r"\bos\.(environ|getenv|putenv)\b")


def tracked(*patterns: str) -> list[Path]:
    """Files of the project: those that git knows and those that it would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted({PROJECT / line for line in listed.splitlines() if (PROJECT / line).is_file()})


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


SOURCES = [
    path for path in tracked("*.py") if name_of(path).partition("/")[0] in ROOMS and "migrations" not in path.parts
]
PYTHON = [path for path in tracked("*.py") if "migrations" not in path.parts]
TEXT_NAMES = {"Makefile", "Dockerfile", "run", ".importlinter", "NOTICE"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yml", ".yaml", ".js", ".mjs", ".css", ".html", ".sh", ".txt", ".in", ".json"}
TEXTS = [path for path in tracked() if path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES]


def is_empty(path: Path) -> bool:
    """Whether there is no code in it: nothing at all, or a docstring."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return not body or (len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))


def test_no_file_that_a_program_left_is_tracked() -> None:
    """Such as the hs_err_pid*.log of a JVM that crashed."""
    assert tracked("*.log", "*.jsa", "*.hprof", "*.sqlite3") == []


def test_there_is_something_to_look_at() -> None:
    assert len(SOURCES) > 20
    assert {name_of(path).partition("/")[0] for path in SOURCES} == set(ROOMS)


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for path in SOURCES:
        name = name_of(path)
        if is_empty(path) or path.name in NO_TEST_OF_ITS_OWN or name in NO_TEST_OF_ITS_OWN:
            continue
        folder = PROJECT / "tests" / Path(name).parent
        stem = path.parent.name if path.name == "__init__.py" else path.stem.strip("_")
        if not (folder / f"test_{stem}.py").exists():
            missing.append(f"{name} has no {name_of(folder / f'test_{stem}.py')}")
    assert not missing, "write the test file, or give the reason in NO_TEST_OF_ITS_OWN:\n" + "\n".join(missing)


def test_every_test_file_has_its_source_file() -> None:
    orphans = []
    for path in tracked("tests/**/test_*.py"):
        name = name_of(path)
        room = Path(name).parts[1]
        if room not in ROOMS or name in TESTS_WITHOUT_A_SOURCE:
            continue
        source = PROJECT / Path(*Path(name).parts[1:-1])
        stem = path.stem.removeprefix("test_")
        candidates = [source / f"{stem}.py", source / f"__{stem}__.py"]
        if source.name == stem:
            candidates.append(source / "__init__.py")
        if not any(candidate.exists() for candidate in candidates):
            orphans.append(f"{name} tests no file of that name")
    assert not orphans, "rename it after what it tests, or list it in TESTS_WITHOUT_A_SOURCE:\n" + "\n".join(orphans)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_fit_a_screen() -> None:
    long = [
        f"{name_of(path)}:{name} has {lines} lines"
        for path in PYTHON
        for name, lines in functions(path)
        if lines > FUNCTION_LINES and f"{name_of(path)}:{name}" not in LONG_FUNCTIONS
    ]
    assert not long, f"give a part of it a name of its own (at most {FUNCTION_LINES} lines):\n" + "\n".join(long)


def test_modules_do_not_hide_their_story() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    long = [
        f"{name} has {lines} lines"
        for name, lines in lengths.items()
        if lines > MODULE_LINES and name not in LONG_MODULES
    ]
    assert not long, "split it by nouns, or give the reason in LONG_MODULES:\n" + "\n".join(long)


@pytest.mark.parametrize(
    "listed",
    [LONG_MODULES, TESTS_WITHOUT_A_SOURCE, MAY_TOUCH_THE_ENVIRONMENT],
    ids=["long modules", "tests", "environment"],
)
def test_no_exception_outlives_its_file(listed: dict[str, str]) -> None:
    assert [name for name in listed if not (PROJECT / name).exists()] == []


def test_every_module_listed_as_long_is_long() -> None:
    short = [
        name for name in LONG_MODULES if len((PROJECT / name).read_text(encoding="utf-8").splitlines()) <= MODULE_LINES
    ]
    assert not short, f"take out of LONG_MODULES: {short}"


def test_every_module_says_what_it_is() -> None:
    silent = [
        name_of(path)
        for path in [*SOURCES, PROJECT / "manage.py"]
        if not is_empty(path) and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent, "begin the file with a docstring: what it is, and why it is so:\n" + "\n".join(silent)


def test_folders_show_what_is_in_them() -> None:
    sources = [path for path in SOURCES if path.name != "__init__.py"]
    sources += [path for path in tracked("static/js") if path.suffix == ".js"]
    modules = Counter(path.relative_to(PROJECT).parent.as_posix() for path in sources)
    crowded = [f"{folder} has {count} modules" for folder, count in modules.items() if count > FOLDER_MODULES]
    assert not crowded, f"group them into folders (at most {FOLDER_MODULES} modules each):\n" + "\n".join(crowded)


def floors(graph: grimp.ImportGraph, folder: str) -> int:
    """How many modules and subfolders of ``folder`` stand on top of each other; a circle counts as one floor."""
    units = graph.find_children(folder)
    unit_of = {module: unit for unit in units for module in {unit} | graph.find_descendants(unit)}
    below: dict[str, set[str]] = {unit: set() for unit in units}
    for module, unit in unit_of.items():
        imported = graph.find_modules_directly_imported_by(module)
        below[unit] |= {unit_of[name] for name in imported if name in unit_of} - {unit}
    heights: dict[str, int] = {}

    def height(unit: str, above: tuple[str, ...]) -> int:
        if unit not in heights:
            heights[unit] = 1 + max(
                (height(lower, (*above, unit)) for lower in below[unit] if lower not in above), default=0
            )
        return heights[unit]

    return max(height(unit, ()) for unit in units)


def test_rooms_have_few_floors() -> None:
    graph = grimp.build_graph(*ROOMS, cache_dir=None)
    tall = [
        f"{folder} has {count} floors"
        for folder in sorted(graph.modules)
        if graph.find_children(folder) and (count := floors(graph, folder)) > FLOORS
    ]
    assert not tall, f"let modules know fewer of the others (at most {FLOORS} floors):\n" + "\n".join(tall)


def test_commit_subjects_can_be_searched_for() -> None:
    history = subprocess.run(
        ["git", "log", "--format=%s", f"{FIRST_CHECKED_COMMIT}^..HEAD"], cwd=PROJECT, capture_output=True, text=True
    )
    if history.returncode:
        pytest.skip("this copy has no history back to the first commit that is checked")
    long = [subject for subject in history.stdout.splitlines() if len(subject) > SUBJECT_LETTERS]
    assert not long, f"at most {SUBJECT_LETTERS} letters; the reason goes into the body:\n" + "\n".join(long)


def find(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def without_this_file(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path != Path(__file__).resolve() and "vendor" not in path.parts]


def test_time_is_an_argument() -> None:
    paths = [path for path in SOURCES if name_of(path) not in MAY_READ_CLOCKS]
    found = find(CLOCK, paths)
    assert not found, "take a Now, or a Clock, of broker_core.clock:\n" + "\n".join(found)


def test_no_task_can_fail_unseen() -> None:
    paths = [path for path in SOURCES if name_of(path) != "broker_core/tasks.py"]
    found = find(re.compile(r"\b(create_task|ensure_future|TaskGroup)\b"), paths)
    assert not found, "call start_task of broker_core/tasks.py (in api: of bridge.port):\n" + "\n".join(found)


def test_only_the_settings_read_the_environment() -> None:
    paths = [path for path in [*SOURCES, PROJECT / "manage.py"] if name_of(path) not in MAY_TOUCH_THE_ENVIRONMENT]
    found = find(ENVIRONMENT, paths)
    assert not found, "read django.conf.settings, and the variable in config/settings.py:\n" + "\n".join(found)


def test_reports_and_the_lake_take_dataframes_alone() -> None:
    paths = [path for path in SOURCES if name_of(path) not in MAY_KNOW_WHERE_SPARK_IS]
    found = find(re.compile(r"\bsparkContext\b|\.rdd\b|\._j(vm|sc|df)\b"), paths)
    assert not found, "a session at a Spark Connect server has none of it:\n" + "\n".join(found)


def test_nothing_is_left_for_later() -> None:
    found = find(
        re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError|pragma: no cover|pytest\.mark\.skip\b"),
        without_this_file(TEXTS),
    )
    assert not found, "do it, or leave it out:\n" + "\n".join(found)


def test_pages_never_build_markup_from_text() -> None:
    scripts = [path for path in tracked("static/js", "templates") if path.suffix in {".js", ".mjs", ".html"}]
    assert scripts
    found = find(
        re.compile(
            r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b"
            r"|\|safe\b|autoescape off"
        ),
        scripts,
    )
    assert not found, "set textContent, or create elements:\n" + "\n".join(found)


def test_no_text_names_a_package_index() -> None:
    found = find(
        re.compile(
            r"https?://[^\s\"')]*(pypi|pythonhosted|npmjs|unpkg|jsdelivr|maven|crates\.io|proxy\.golang)"
            r"|--(extra-)?index-url|--find-links"
        ),
        without_this_file(TEXTS),
    )
    assert not found, "name packages, never where they are:\n" + "\n".join(found)


def test_no_text_contains_an_absolute_path_of_one_machine() -> None:
    found = find(re.compile(r"(?<![\w.}])/(home|Users|root|work)/\w"), without_this_file(TEXTS))
    assert not found, "name it from the project's folder, or from a setting:\n" + "\n".join(found)


def test_every_requirement_of_a_broker_is_used() -> None:
    names = re.findall(r"^([\w-]+)==", (PROJECT / "requirements" / "base.in").read_text(), flags=re.MULTILINE)
    imported_as = {"django-environ": "environ", "markdown-it-py": "markdown_it"}
    modules = {imported_as.get(name, name.replace("-", "_").lower()) for name in names}
    code = "\n".join(path.read_text() for path in [PROJECT / "manage.py", *SOURCES])
    unused = {module for module in modules if not re.search(rf"(import |from |\"){module}\b", code)}
    assert len(modules) > 10 and unused == set(), "take them out of requirements/base.in, then `make requirements`"


def test_every_mutant_fits() -> None:
    """``make mutants`` runs them: each is a defect that a test must find."""
    assert {mutant.name: problem for mutant in load_mutants() if (problem := misfit(mutant))} == {}
