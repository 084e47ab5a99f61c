"""config/settings.py, executed anew for each environment."""

import json
import os
import runpy
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from broker_core.version import VERSION
from tests.conftest import PROJECT

SHOW = """
import json, sys
from config import settings
print(json.dumps({name: getattr(settings, name) for name in sys.argv[1:]}, default=str))
"""


def read(data_dir: Path, *names: str, **environment: str) -> dict[str, Any]:
    """These settings in this environment, as JSON shows them."""
    found = run_settings(data_dir, environment)
    result: dict[str, Any] = json.loads(json.dumps({name: found[name] for name in names}, default=str))
    return result


def refusal(data_dir: Path, **environment: str) -> str:
    """The sentence with which the settings refuse this environment."""
    with pytest.raises(ImproperlyConfigured) as refused:
        run_settings(data_dir, environment)
    return str(refused.value)


def run_settings(data_dir: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The settings' module, executed anew with this environment: its names."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GLASSMQ_")]:
            patch.delenv(name)
        for name, value in ({"GLASSMQ_DATA_DIR": str(data_dir)} | environment).items():
            patch.setenv(name, value)
        return runpy.run_path(str(PROJECT / "config" / "settings.py"))


def read_in_a_process(data_dir: Path, *names: str) -> dict[str, Any]:
    """These settings of a new process, in which no variable but the data folder's is set."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("GLASSMQ_")}
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *names],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env=bare | {"GLASSMQ_DATA_DIR": str(data_dir)},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_no_variable_is_required(tmp_path: Path) -> None:
    settings = read_in_a_process(
        tmp_path,
        "GLASSMQ_HOST",
        "GLASSMQ_WEB_PORT",
        "GLASSMQ_BROKER_PORT",
        "GLASSMQ_NAMESRV_PORT",
        "GLASSMQ_ENGINE",
        "GLASSMQ_STORE_DIR",
        "GLASSMQ_STORE_ADOPT",
        "GLASSMQ_BROKERS",
        "GLASSMQ_WARNINGS",
        "GLASSMQ_VERSION",
        "DEBUG",
    )
    assert settings == {
        "GLASSMQ_HOST": "127.0.0.1",
        "GLASSMQ_WEB_PORT": 8000,
        "GLASSMQ_BROKER_PORT": 10911,
        "GLASSMQ_NAMESRV_PORT": 9876,
        "GLASSMQ_ENGINE": "child",
        "GLASSMQ_STORE_DIR": str(tmp_path / "store"),
        "GLASSMQ_STORE_ADOPT": False,
        "GLASSMQ_BROKERS": 3,
        "GLASSMQ_WARNINGS": [],
        "GLASSMQ_VERSION": VERSION,
        "DEBUG": False,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GLASSMQ_LAKE_DIR", "s3://bucket"),
        ("GLASSMQ_LAKE_DIR", "gs://bucket/lake"),
        ("GLASSMQ_STORE_DIR", "s3://bucket/store"),
        ("GLASSMQ_LAKE_DIR", "file://server/lake"),
        ("GLASSMQ_WEB_PORT", "80a"),
        ("GLASSMQ_WEB_PORT", "0"),
        ("GLASSMQ_BROKER_PORT", "70000"),
        ("GLASSMQ_NAMESRV_PORT", "-1"),
        ("GLASSMQ_BROKERS", "0"),
        ("GLASSMQ_STORE_ADOPT", "yes"),
        ("GLASSMQ_ALLOW_INSECURE", "true"),
        ("GLASSMQ_HTTPS", "on"),
        ("GLASSMQ_ENGINE", "somewhere"),
        ("GLASSMQ_REDIS_URL", "localhost:6379"),
        ("GLASSMQ_DATABASE_URL", "nonsense"),
        ("GLASSMQ_API_TOKEN", "short"),
        ("GLASSMQ_BROKER_CONF", "/nowhere/broker.conf"),
        ("GLASSMQ_NAMESRV_ADDR", "127.0.0.1"),
        ("GLASSMQ_SITE_URL", "mq.example"),
        ("GLASSMQ_SMTP_URL", "mail.example:25"),
        ("GLASSMQ_SMTP_URL", "smtp://mail.example:99999"),
        ("GLASSMQ_LANGUAGE", "fr"),
        ("GLASSMQ_ATTACH", "127.0.0.1"),
        ("GLASSMQ_ATTACH_SOURCE", "both"),
        ("GLASSMQ_ATTACH_BEGIN", "now"),
        ("GLASSMQ_ATTACH_MAX_RATE", "0"),
        ("GLASSMQ_ATTACH_KEEP_HOURS", "-1"),
        ("GLASSMQ_ATTACH_HA", "10.0.0.1:10912"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(tmp_path: Path, name: str, value: str) -> None:
    assert name in refusal(tmp_path, **{name: value})


def test_the_language_of_the_instance(tmp_path: Path) -> None:
    assert read(tmp_path, "LANGUAGE_CODE") == {"LANGUAGE_CODE": "en"}
    assert read(tmp_path, "LANGUAGE_CODE", GLASSMQ_LANGUAGE="zh-hans") == {"LANGUAGE_CODE": "zh-hans"}


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    settings = read(tmp_path, "GLASSMQ_WEB_PORT", "GLASSMQ_ENGINE", GLASSMQ_WEB_PORT="", GLASSMQ_REDIS_URL=" ")
    assert settings == {"GLASSMQ_WEB_PORT": 8000, "GLASSMQ_ENGINE": "child"}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "broker.example.org"])
def test_other_machines_need_a_token_or_an_explicit_setting(tmp_path: Path, host: str) -> None:
    sentence = refusal(tmp_path, GLASSMQ_HOST=host)
    assert "GLASSMQ_API_TOKEN" in sentence
    assert "GLASSMQ_ALLOW_INSECURE=1" in sentence
    assert read(tmp_path, "GLASSMQ_HOST", GLASSMQ_HOST=host, GLASSMQ_API_TOKEN="t" * 16) == {"GLASSMQ_HOST": host}
    assert read(tmp_path, "GLASSMQ_HOST", GLASSMQ_HOST=host, GLASSMQ_ALLOW_INSECURE="1") == {"GLASSMQ_HOST": host}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address_needs_no_token(tmp_path: Path, host: str) -> None:
    assert read(tmp_path, "GLASSMQ_HOST", GLASSMQ_HOST=host) == {"GLASSMQ_HOST": host}


def test_broker_conf_gives_the_options_and_the_environment_wins(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# a comment\nbrokerName = orders\nlistenPort=20911\nlongPollingEnable=false\nmappedFileSize=1\n")
    shown = read(tmp_path, "GLASSMQ_OPTIONS", "GLASSMQ_BROKER_PORT", "GLASSMQ_WARNINGS", GLASSMQ_BROKER_CONF=str(conf))
    assert "broker_name='orders'" in shown["GLASSMQ_OPTIONS"]
    assert "long_polling_enable=False" in shown["GLASSMQ_OPTIONS"]
    assert shown["GLASSMQ_BROKER_PORT"] == 20911
    [warning] = shown["GLASSMQ_WARNINGS"]
    assert "mappedFileSize" in warning
    conf.write_text("brokerRole=SYNC_MASTER\ninSyncReplicas=2\n")
    [warning] = read(tmp_path, "GLASSMQ_WARNINGS", GLASSMQ_BROKER_CONF=str(conf))["GLASSMQ_WARNINGS"]
    assert "haListenPort is off" in warning
    conf.write_text("listenPort=20911\n")
    over = read(tmp_path, "GLASSMQ_BROKER_PORT", GLASSMQ_BROKER_CONF=str(conf), GLASSMQ_BROKER_PORT="30911")
    assert over == {"GLASSMQ_BROKER_PORT": 30911}


@pytest.mark.parametrize(
    ("first", "count", "names"),
    [
        ("broker-a", "3", ["broker-a", "broker-b", "broker-c"]),
        ("orders", "2", ["orders", "orders-b"]),
        ("x", "1", ["x"]),
    ],
)
def test_the_names_of_a_cluster_continue_from_the_first(
    tmp_path: Path, first: str, count: str, names: list[str]
) -> None:
    shown = read(tmp_path, "GLASSMQ_CLUSTER_NAMES", GLASSMQ_BROKER_NAME=first, GLASSMQ_BROKERS=count)
    assert shown["GLASSMQ_CLUSTER_NAMES"] == names


def test_name_servers_of_other_processes_and_none_here(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("namesrvAddr=10.0.0.1:9876;10.0.0.2:9876\n")

    def shown(**environment: str) -> str:
        return str(read(tmp_path, "GLASSMQ_OPTIONS", GLASSMQ_BROKER_CONF=str(conf), **environment)["GLASSMQ_OPTIONS"])

    assert "namesrv_addr='10.0.0.1:9876;10.0.0.2:9876'" in shown()
    assert "namesrv_addr='127.0.0.1:1'" in shown(GLASSMQ_NAMESRV_ADDR="127.0.0.1:1")
    assert read(tmp_path, "GLASSMQ_NAMESRV_PORT", GLASSMQ_NAMESRV_PORT="0") == {"GLASSMQ_NAMESRV_PORT": 0}


def test_a_wrong_option_in_broker_conf_is_refused_by_name(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=long\n")
    sentence = refusal(tmp_path, GLASSMQ_BROKER_CONF=str(conf))
    assert "GLASSMQ_BROKER_CONF" in sentence
    assert "fileReservedTime" in sentence


@pytest.mark.covers("slave-role")
def test_the_configuration_of_a_slave_is_refused(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-a\nbrokerId=1\nbrokerRole=SLAVE\n")
    assert "brokerRole=SLAVE: its store is the copy of a master's" in refusal(tmp_path, GLASSMQ_BROKER_CONF=str(conf))


def test_clients_are_sent_to_the_address_the_broker_listens_on(tmp_path: Path) -> None:
    def address(**environment: str) -> str:
        shown = read(tmp_path, "GLASSMQ_OPTIONS", GLASSMQ_ALLOW_INSECURE="1", **environment)["GLASSMQ_OPTIONS"]
        return str(shown).partition("broker_ip1='")[2].partition("'")[0]

    conf = tmp_path / "broker.conf"
    conf.write_text("brokerIP1=10.0.0.7\n")
    assert address() == "127.0.0.1"
    assert address(GLASSMQ_HOST="10.0.0.5") == "127.0.0.1"
    assert address(GLASSMQ_BROKER_HOST="localhost") == "127.0.0.1"
    assert address(GLASSMQ_BROKER_HOST="10.0.0.5") == "10.0.0.5"
    assert address(GLASSMQ_BROKER_HOST="0.0.0.0") == "127.0.0.1"
    assert address(GLASSMQ_BROKER_HOST="0.0.0.0", GLASSMQ_BROKER_CONF=str(conf)) == "10.0.0.7"
    assert address(GLASSMQ_BROKER_IP1="10.0.0.9", GLASSMQ_BROKER_CONF=str(conf)) == "10.0.0.9"


def test_serving_all_addresses_needs_an_address_for_clients(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerIP1=10.0.0.7\n")
    open_to_all = {"GLASSMQ_BROKER_HOST": "0.0.0.0", "GLASSMQ_ALLOW_INSECURE": "1"}
    [warning] = read(tmp_path, "GLASSMQ_WARNINGS", **open_to_all)["GLASSMQ_WARNINGS"]
    assert "brokerIP1" in warning
    assert read(tmp_path, "GLASSMQ_WARNINGS", GLASSMQ_BROKER_CONF=str(conf), **open_to_all) == {"GLASSMQ_WARNINGS": []}
    assert read(tmp_path, "GLASSMQ_WARNINGS", GLASSMQ_BROKER_IP1="10.0.0.7", **open_to_all) == {"GLASSMQ_WARNINGS": []}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "broker.example.org"])
def test_rocketmq_clients_on_other_machines_need_an_explicit_setting(tmp_path: Path, host: str) -> None:
    assert "GLASSMQ_ALLOW_INSECURE" in refusal(tmp_path, GLASSMQ_BROKER_HOST=host, GLASSMQ_API_TOKEN="s" * 16)
    assert read(tmp_path, "GLASSMQ_BROKER_HOST", GLASSMQ_BROKER_HOST=host, GLASSMQ_ALLOW_INSECURE="1") == {
        "GLASSMQ_BROKER_HOST": host
    }


def test_port_0_serves_no_rocketmq_clients_and_is_in_no_store_host(tmp_path: Path) -> None:
    shown = read(tmp_path, "GLASSMQ_BROKER_PORT", "GLASSMQ_OPTIONS", GLASSMQ_BROKER_PORT="0")
    assert shown["GLASSMQ_BROKER_PORT"] == 0
    assert "listen_port=10911" in str(shown["GLASSMQ_OPTIONS"])


def test_the_secret_key_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    first = read(tmp_path, "SECRET_KEY")
    assert len(first["SECRET_KEY"]) >= 50
    assert read(tmp_path, "SECRET_KEY") == first
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    assert read(tmp_path, "SECRET_KEY", GLASSMQ_SECRET_KEY="s" * 32) == {"SECRET_KEY": "s" * 32}


def test_a_short_secret_key_is_refused(tmp_path: Path) -> None:
    assert "at least 32 characters" in refusal(tmp_path, GLASSMQ_SECRET_KEY="s" * 31)


def test_processes_that_start_together_agree_on_one_secret_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        keys = set(pool.map(lambda _: read_in_a_process(tmp_path, "SECRET_KEY")["SECRET_KEY"], range(4)))
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("secret-key")] == ["secret-key"]


def test_a_data_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "GLASSMQ_DATA_DIR" in refusal(tmp_path / "file" / "data")


def test_an_existing_data_folder_is_closed_to_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    read(folder, "GLASSMQ_DATA_DIR")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_redis_sets_the_layer_the_queue_and_the_remote_engine(tmp_path: Path) -> None:
    url = "redis://127.0.0.1:6379/3"
    shown = read(tmp_path, "GLASSMQ_ENGINE", "CHANNEL_LAYERS", "CELERY_BROKER_URL", GLASSMQ_REDIS_URL=url)
    assert shown["GLASSMQ_ENGINE"] == "remote"
    assert shown["CELERY_BROKER_URL"] == url
    config = shown["CHANNEL_LAYERS"]["default"]["CONFIG"]
    [host] = config["hosts"]
    assert host["address"] == url
    assert host["socket_timeout"] > 5, "a blocking read of channels_redis lasts 5 s"
    assert host["max_connections"] >= 1000
    assert (config["capacity"], config["expiry"]) == (10_000, 60)


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*,3]",
        "spark://a.example:7077,b:7078",
        "yarn",
        "sc://spark",
        "sc://[::1]:15002",
        "sc://spark/",
        "sc://spark.example:443/;use_ssl=true;token=a%2Fb+c%3D",
    ],
)
def test_accepted_spark_masters(tmp_path: Path, master: str) -> None:
    assert read(tmp_path, "GLASSMQ_SPARK_MASTER", GLASSMQ_SPARK_MASTER=master) == {"GLASSMQ_SPARK_MASTER": master}


@pytest.mark.parametrize(
    "master",
    [
        "spark://nowhere",
        "http://a:1",
        "localhost",
        "localhost:15002",
        "sc//spark:1/;token=hush",
        "SC://spark:1/;token=hush",
        "spark://m:1/;token=hush",
        "'sc://spark?token=hush'",
    ],
)
def test_refused_spark_masters(tmp_path: Path, master: str) -> None:
    said = refusal(tmp_path, GLASSMQ_SPARK_MASTER=master)
    assert "GLASSMQ_SPARK_MASTER must be local" in said
    assert "hush" not in said


@pytest.mark.parametrize(
    "master",
    [
        "sc://",
        "sc:/spark",
        "sc://spark:15002/reports",
        "sc://a b",
        "sc://spark:65536",
        "sc://spark/;token=hush==",
        "sc://spark:1/;token=hush/abc",
        "sc://spark:1;token=hush",
        "sc://spark;token=hush",
        "sc://spark:1?token=hush",
        "sc://me:hush@spark:1",
        "sc://spark:1/ ;token=hush",
    ],
)
def test_invalid_urls_are_not_printed(tmp_path: Path, master: str) -> None:
    said = refusal(tmp_path, GLASSMQ_SPARK_MASTER=master)
    assert "GLASSMQ_SPARK_MASTER must be sc://host:port for Spark Connect" in said
    assert "hush" not in said


def test_a_remote_engine_needs_redis(tmp_path: Path) -> None:
    assert "GLASSMQ_REDIS_URL" in refusal(tmp_path, GLASSMQ_ENGINE="remote")


def test_a_child_engine_needs_a_short_path_for_its_socket(tmp_path: Path) -> None:
    long = tmp_path / ("d" * 100)
    assert "GLASSMQ_DATA_DIR" in refusal(long, GLASSMQ_ENGINE="child")
    assert read(long, "GLASSMQ_ENGINE") == {"GLASSMQ_ENGINE": "embedded"}


def test_sqlite_is_set_up_for_several_processes(tmp_path: Path) -> None:
    options = read(tmp_path, "DATABASES")["DATABASES"]["default"]["OPTIONS"]
    assert "journal_mode = WAL" in options["init_command"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] >= 5


def test_another_database_is_used_as_given(tmp_path: Path) -> None:
    database = read(tmp_path, "DATABASES", GLASSMQ_DATABASE_URL="postgres://u:p@db:5432/glassmq")["DATABASES"][
        "default"
    ]
    assert (database["ENGINE"], database["HOST"]) == ("django.db.backends.postgresql", "db")
    assert "init_command" not in database.get("OPTIONS", {})


def test_behind_https_cookies_are_secure(tmp_path: Path) -> None:
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT", "SECURE_HSTS_SECONDS")
    assert all(read(tmp_path, *names, GLASSMQ_HTTPS="1").values())


def test_django_has_no_warnings_behind_https(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ)
        | {"DJANGO_SETTINGS_MODULE": "config.settings", "GLASSMQ_DATA_DIR": str(tmp_path), "GLASSMQ_HTTPS": "1"},
    )
    assert done.returncode == 0, done.stderr


def test_hosts_that_are_answered(tmp_path: Path) -> None:
    assert read(tmp_path, "ALLOWED_HOSTS") == {"ALLOWED_HOSTS": ["127.0.0.1", "localhost", ".localhost", "[::1]"]}
    shown = read(
        tmp_path,
        "ALLOWED_HOSTS",
        GLASSMQ_HOST="10.0.0.5",
        GLASSMQ_API_TOKEN="t" * 16,
        GLASSMQ_ALLOWED_HOSTS="mq.example.org, mq2.example.org",
    )["ALLOWED_HOSTS"]
    assert shown[4:] == ["mq.example.org", "mq2.example.org", "10.0.0.5"]
    assert "*" not in shown


@pytest.mark.parametrize("hosts", ["*", "mq.example.org,*"])
def test_answering_every_host_needs_an_explicit_setting(tmp_path: Path, hosts: str) -> None:
    assert "GLASSMQ_ALLOWED_HOSTS" in refusal(tmp_path, GLASSMQ_ALLOWED_HOSTS=hosts)
    shown = read(tmp_path, "ALLOWED_HOSTS", GLASSMQ_ALLOWED_HOSTS=hosts, GLASSMQ_ALLOW_INSECURE="1")
    assert "*" in shown["ALLOWED_HOSTS"]


def test_a_misspelt_variable_is_a_warning(tmp_path: Path) -> None:
    [warning] = read(tmp_path, "GLASSMQ_WARNINGS", GLASSMQ_WEBPORT="8001")["GLASSMQ_WARNINGS"]
    assert warning.startswith("GLASSMQ_WEBPORT is set, but GLASSMQ has no such variable")


def test_alerts_have_a_mail_server_an_address_and_hosts(tmp_path: Path) -> None:
    names = ["HOST", "PORT", "HOST_USER", "HOST_PASSWORD", "USE_TLS", "USE_SSL"]
    mail = [f"EMAIL_{name}" for name in names]
    url = "smtp+tls://mq%40example:p%2F%40s@mail.example"
    others = ("GLASSMQ_SENDS_MAIL", "GLASSMQ_SITE_URL", "GLASSMQ_ALERT_HOSTS")
    found = read(
        tmp_path,
        *mail,
        *others,
        GLASSMQ_SMTP_URL=url,
        GLASSMQ_SITE_URL="https://mq.example/",
        GLASSMQ_ALERT_HOSTS="Hooks.example, 10.0.0.5",
    )
    assert [found[name] for name in mail] == ["mail.example", 587, "mq@example", "p/@s", True, False]
    assert [found[name] for name in others] == [True, "https://mq.example", ["hooks.example", "10.0.0.5"]]
    found = read(tmp_path, *others, GLASSMQ_HOST="::1")
    assert [found[name] for name in others] == [False, "http://[::1]:8000", []]
