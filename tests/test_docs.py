"""What the documentation says exists, and what exists is documented."""

import re
from io import StringIO

import pytest
from django.core.management import call_command, get_commands

from api.http.limits import MAX_BAD_FRAMES
from broker_core.options import PYTHON_NAMES
from broker_core.remoting.requests import REFUSED_REQUESTS, REQUESTS
from broker_core.verdicts.catalogue import CATALOGUE
from tests.conftest import PROJECT

PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
MAKEFILE = (PROJECT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE))
SETTINGS = (PROJECT / "config" / "settings.py").read_text(encoding="utf-8")
READ_VARIABLES = set(
    re.findall(
        r'(?:text|number|switch|choice|folder|lake_location|named_addresses|database_url)\(\s*"(GLASSMQ_[A-Z_]+)"',
        SETTINGS,
    )
)
COMPOSE_VARIABLES = set(
    re.findall(r"\$\{(GLASSMQ_[A-Z_]+)", (PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))
)
COMMAND_LINE_VARIABLES = {"GLASSMQ_URL"}
OPERATIONS = (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_number_of_bad_frames_is_what_the_code_says() -> None:
    page = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8")
    assert MAX_BAD_FRAMES == 5
    assert "| 4400 | six frames that are not JSON, or of no known type; each of the first five is" in page


def test_docs_options_is_what_the_code_says() -> None:
    written = StringIO()
    call_command("options", "--markdown", stdout=written)
    assert (PROJECT / "docs" / "options.md").read_text(encoding="utf-8") == written.getvalue(), (
        "write it anew: .venv/bin/python manage.py options --markdown > docs/options.md"
    )


def test_docs_verdicts_is_what_the_code_says() -> None:
    written, listed = StringIO(), StringIO()
    call_command("verdicts", "--markdown", stdout=written)
    assert (PROJECT / "docs" / "verdicts.md").read_text(encoding="utf-8") == written.getvalue(), (
        "write it anew: .venv/bin/python manage.py verdicts --markdown > docs/verdicts.md"
    )
    call_command("verdicts", stdout=listed)
    assert [line.split()[0] for line in listed.getvalue().splitlines()] == list(CATALOGUE)


def test_docs_request_codes_is_what_the_code_says() -> None:
    written, listed = StringIO(), StringIO()
    call_command("request_codes", "--markdown", stdout=written)
    assert (PROJECT / "docs" / "request-codes.md").read_text(encoding="utf-8") == written.getvalue(), (
        "write it anew: .venv/bin/python manage.py request_codes --markdown > docs/request-codes.md"
    )
    call_command("request_codes", stdout=listed)
    assert [int(line.split()[0]) for line in listed.getvalue().splitlines()] == sorted({*REQUESTS, *REFUSED_REQUESTS})
    assert not REQUESTS.keys() & REFUSED_REQUESTS.keys(), "what is answered must leave REFUSED_REQUESTS"


def test_options_are_shown_as_a_broker_conf() -> None:
    shown = StringIO()
    call_command("options", stdout=shown)
    lines = dict(line.split("=", 1) for line in shown.getvalue().splitlines())
    assert list(lines) == list(PYTHON_NAMES)
    assert lines["longPollingEnable"] == "true"


def test_every_variable_that_is_read_is_in_the_table_and_no_other() -> None:
    table = set(re.findall(r"^\| `(GLASSMQ_[A-Z_]+)` \|", OPERATIONS, flags=re.MULTILINE))
    assert len(READ_VARIABLES) > 10
    assert table == READ_VARIABLES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_variable_command_and_link_on_a_page_exists(page) -> None:
    text = page.read_text(encoding="utf-8")
    variables = set(re.findall(r"\bGLASSMQ_[A-Z]+(?:_[A-Z]+)*\b", text))
    assert variables <= READ_VARIABLES | COMPOSE_VARIABLES | COMMAND_LINE_VARIABLES, "no settings read these"
    targets = set(re.findall(r"(?:`|^    |^\$ )make ([a-z][a-z-]*)", text, flags=re.MULTILINE))
    assert targets <= TARGETS, "no target of the Makefile"
    commands = set(re.findall(r"manage\.py ([a-z][a-z_]*)", text))
    assert commands <= set(get_commands()), "no command of manage.py"
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == [], "links that lead nowhere"


@pytest.mark.parametrize(
    "page", [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_a_page_says_how_its_commands_are_typed(page) -> None:
    text = page.read_text(encoding="utf-8")
    short = re.findall(r"(?<!python )manage\.py [a-z]", text)
    assert not short or "`manage.py …` stands for `.venv/bin/python manage.py …`" in text
    to_copy = "\n".join(re.findall(r"^ {4,}.*manage\.py.*$", text, flags=re.MULTILINE))
    assert to_copy.count("manage.py") == to_copy.count(".venv/bin/python manage.py")


def test_make_explains_every_target() -> None:
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## ", MAKEFILE, flags=re.MULTILINE))
    assert explained == TARGETS


def test_every_page_has_a_title() -> None:
    assert [page.name for page in PAGES if not page.read_text(encoding="utf-8").startswith("# ")] == []


def test_the_differences_from_rocketmq_name_the_tests_that_cover_them() -> None:
    page = (PROJECT / "docs" / "coming-from-rocketmq.md").read_text(encoding="utf-8")
    table = page.partition("## What is different")[2].partition("\n## ")[0]
    named = re.findall(r"\| `([a-z-]+)` \|$", table, flags=re.MULTILINE)
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT / "tests").rglob("test_*.py"))
    covered = re.findall(r'^@pytest\.mark\.covers\("([a-z-]+)"\)$', tests, flags=re.MULTILINE)
    assert len(named) == len(set(named)) > 10
    assert set(named) == set(covered), "name a row in its last column exactly when a test is marked as covering it"


SECTIONS = ["Decision", "Why", "What it costs", "What was measured"]


@pytest.mark.parametrize("page", sorted((PROJECT / "docs" / "decisions").glob("*.md")), ids=lambda page: page.name)
def test_decision_pages_have_one_form(page) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# {int(page.name[:4])}\. [A-Z]", text), "the title begins with the number"
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == SECTIONS
    assert "\nEOF\n" not in text, "the end of a shell's here-document"


def test_decision_pages_have_numbers_of_their_own() -> None:
    numbers = [page.name[:4] for page in (PROJECT / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers))


def test_every_heading_that_a_link_names_exists() -> None:
    missing = []
    for page in PAGES:
        for file, anchor in re.findall(r"\]\(([^:()#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / file if file else page).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
            if anchor not in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}:
                missing.append(f"{page.name}: {file}#{anchor}")
    assert missing == []
