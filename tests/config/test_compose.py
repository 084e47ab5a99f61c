"""docker-compose.yml and Dockerfile, read as what they claim; no Docker is needed for that."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from celery.bin.celery import celery
from django.core.management import get_commands

from bridge.management.commands import broker
from broker_core.broker_conf import read_broker_conf
from tests.conftest import PROJECT

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if name != "redis"}
SETTINGS = (PROJECT / "config" / "settings.py").read_text(encoding="utf-8")


def seconds(duration: str) -> int:
    assert duration.endswith("s")
    return int(duration[:-1])


def replicas(service: dict[str, Any]) -> int:
    return int(service.get("deploy", {}).get("replicas", 1))


def test_the_file_has_all_services_and_no_top_level_name() -> None:
    assert set(SERVICES) == {"redis", "migrate", "engine", "web", "worker", "beat"}
    assert "name" not in COMPOSE, "older versions of docker-compose refuse it"


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_a_real_one(name: str) -> None:
    program, *arguments = OURS[name]["command"]
    if program == "celery":
        assert arguments[:2] == ["--app", "config.celery"]
        known = {option for parameter in celery.commands[arguments[2]].params for option in parameter.opts}
        assert {word.split("=")[0] for word in arguments[3:] if word.startswith("--")} <= known
    else:
        assert [program, arguments[0]] == ["python", "manage.py"]
        assert arguments[1] in get_commands()


def test_the_web_command_takes_its_options() -> None:
    parser = broker.Command().create_parser("manage.py", "broker")
    options = parser.parse_args(SERVICES["web"]["command"][3:])
    assert options.no_migrate
    assert options.no_schedules


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_one_that_the_settings_read(name: str) -> None:
    environment = OURS[name]["environment"]
    assert environment["GLASSMQ_REDIS_URL"] == "redis://redis:6379/0"
    for variable in environment:
        assert f'"{variable}"' in SETTINGS


def test_the_token_is_required() -> None:
    assert all(
        service["environment"]["GLASSMQ_API_TOKEN"].startswith("${GLASSMQ_API_TOKEN:?") for service in OURS.values()
    )


def test_exactly_one_engine_and_one_beat_but_several_webs() -> None:
    assert {name: replicas(service) for name, service in OURS.items()} == {
        "migrate": 1,
        "engine": 1,
        "web": 2,
        "worker": 1,
        "beat": 1,
    }


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "migrate"])
def test_every_permanent_service_has_a_health_check_and_is_restarted(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_python_in_health_checks_compiles() -> None:
    for service in OURS.values():
        words = service.get("healthcheck", {}).get("test", [])
        if "-c" in words:
            compile(words[words.index("-c") + 1], "healthcheck", "exec")
        elif "manage.py" in words:
            assert words[words.index("manage.py") + 1] in get_commands()


def test_services_have_enough_time_to_stop_cleanly() -> None:
    assert seconds(SERVICES["engine"]["stop_grace_period"]) >= 30
    longest = broker.ENGINE_GRACE_S + broker.LAST_ANSWERS_S
    assert seconds(SERVICES["web"]["stop_grace_period"]) > longest


@pytest.mark.parametrize("name", OURS)
def test_processes_share_a_data_volume_that_outlives_the_containers(name: str) -> None:
    assert "data:/data" in OURS[name]["volumes"]
    assert OURS[name]["environment"]["GLASSMQ_DATA_DIR"] == "/data"
    assert "data" in COMPOSE["volumes"]


def test_redis_does_not_evict_data() -> None:
    command = SERVICES["redis"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]
    assert "redis" in COMPOSE["volumes"]


def test_ports_are_published_on_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    for port in published:
        assert re.match(r"\$\{GLASSMQ_PUBLISH:-127\.0\.0\.1\}:", port)


def test_rocketmq_clients_reach_the_engine_at_the_ports_they_expect() -> None:
    engine = SERVICES["engine"]
    assert engine["environment"]["GLASSMQ_BROKER_HOST"] == "0.0.0.0"
    assert engine["environment"]["GLASSMQ_ALLOW_INSECURE"] == "1"
    assert [port.split(":")[-2:] for port in engine["ports"]] == [[port, port] for port in ("9876", "10909", "10911")]
    listeners = [name for name, service in OURS.items() if "GLASSMQ_BROKER_HOST" in service["environment"]]
    assert listeners == ["engine"], "only there may everybody connect without a token"


@pytest.mark.parametrize("name", OURS)
def test_a_broker_conf_and_the_address_for_clients_come_from_outside(name: str) -> None:
    environment = OURS[name]["environment"]
    assert environment["GLASSMQ_BROKER_IP1"] == "${GLASSMQ_BROKER_IP1:-}", "an address here would win over the file's"
    [mount] = [volume for volume in OURS[name]["volumes"] if volume.endswith(":ro")]
    assert mount == f"${{GLASSMQ_BROKER_CONF:-/dev/null}}:{environment['GLASSMQ_BROKER_CONF']}:ro"


def test_an_empty_broker_conf_changes_no_option() -> None:
    assert read_broker_conf(Path("/dev/null")) == ({}, {})


def test_conditions_that_services_wait_for_can_become_true() -> None:
    for service in OURS.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]
            elif wait["condition"] == "service_completed_successfully":
                assert SERVICES[name]["restart"] == "no"
            else:
                assert name in SERVICES


def test_the_images_are_stages_of_the_dockerfile_and_do_not_run_as_root() -> None:
    stages: dict[str, str] = {}
    for stage in re.split(r"^FROM ", (PROJECT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name = stage.splitlines()[0].rpartition(" AS ")[2]
        stages[name] = stage
    assert {service["build"]["target"] for service in OURS.values()} <= set(stages)
    for stage in stages.values():
        assert re.findall(r"^USER (\w+)$", stage, flags=re.MULTILINE)[-1] == "glassmq"


def test_the_image_leaves_out_what_is_not_needed_to_run() -> None:
    left_out = Path(PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv", "data", "tests"} <= set(left_out)


def test_no_code_names_a_folder_that_the_image_lacks() -> None:
    for room in ("api", "bridge", "broker_core", "config", "dashboard", "spark_jobs"):
        for path in (PROJECT / room).rglob("*.py"):
            words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not words & {"tests", "benchmarks"}, path
