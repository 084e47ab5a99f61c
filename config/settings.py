"""All settings of GlassMQ, read from the environment.

``docs/operations.md`` describes the ``GLASSMQ_...`` variables. None is required: by default one process serves on
127.0.0.1 and writes only to ``./data``. An invalid value ends the start with a sentence that names its variable.
"""

import os
import re
from ipaddress import ip_address
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from broker_core.broker_conf import read_broker_conf
from broker_core.errors import RequestError
from broker_core.options import ADDRESSES, Options, make_options
from broker_core.version import VERSION
from config.mail import mail_server
from config.secret_key import keep_secret_key
from config.variables import (
    BASE_DIR,
    KNOWN,
    choice,
    database_url,
    folder,
    lake_location,
    named_addresses,
    number,
    switch,
    text,
)

GLASSMQ_VERSION = VERSION


def address_in_url(host: str) -> str:
    """A host that listens, as it is written in a URL on this machine."""
    if host in {"0.0.0.0", "::"}:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to ``host``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Folders

GLASSMQ_DATA_DIR = folder("GLASSMQ_DATA_DIR", BASE_DIR / "data")


def prepare_data_dir(path: Path) -> None:
    """Create the data folder for its owner only. An existing folder of this user is closed to other users."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The data folder {path} cannot be created ({error.strerror}): set GLASSMQ_DATA_DIR to a folder that "
            "this user can write to."
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(
            f"This user cannot write to the data folder {path}: set GLASSMQ_DATA_DIR to a folder that it can write to."
        )
    status = path.stat()
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():
        path.chmod(0o700)


prepare_data_dir(GLASSMQ_DATA_DIR)
GLASSMQ_STORE_DIR = folder("GLASSMQ_STORE_DIR", GLASSMQ_DATA_DIR / "store")
GLASSMQ_STORE_ADOPT = switch("GLASSMQ_STORE_ADOPT")
GLASSMQ_REPORTS_DIR = GLASSMQ_DATA_DIR / "reports"
GLASSMQ_LAKE_DIR = lake_location("GLASSMQ_LAKE_DIR", GLASSMQ_DATA_DIR / "lake")
GLASSMQ_LAKE_KEEP_DAYS = number("GLASSMQ_LAKE_KEEP_DAYS", 0, 0, 36_500)

# Addresses and ports

GLASSMQ_HOST = text("GLASSMQ_HOST", "127.0.0.1")
GLASSMQ_WEB_PORT = number("GLASSMQ_WEB_PORT", 8000, 1, 65535)
GLASSMQ_BROKER_HOST = text("GLASSMQ_BROKER_HOST", "127.0.0.1")
GLASSMQ_NAMESRV_PORT = number("GLASSMQ_NAMESRV_PORT", 9876, 0, 65535)
GLASSMQ_BROKERS = number("GLASSMQ_BROKERS", 3, 1, 26)
GLASSMQ_MAX_CONNECTIONS = number("GLASSMQ_MAX_CONNECTIONS", 20_000, 1, 1_000_000)
GLASSMQ_API_TOKEN = text("GLASSMQ_API_TOKEN")
GLASSMQ_ALLOW_INSECURE = switch("GLASSMQ_ALLOW_INSECURE")
GLASSMQ_HTTPS = switch("GLASSMQ_HTTPS")
if GLASSMQ_API_TOKEN and len(GLASSMQ_API_TOKEN) < 16:
    raise ImproperlyConfigured("GLASSMQ_API_TOKEN must have at least 16 characters; `openssl rand -hex 32` makes one.")
if not is_loopback(GLASSMQ_HOST) and not GLASSMQ_API_TOKEN and not GLASSMQ_ALLOW_INSECURE:
    raise ImproperlyConfigured(
        f"GLASSMQ_HOST={GLASSMQ_HOST} allows connections from other machines without authentication: set "
        "GLASSMQ_API_TOKEN to a secret that clients send, or GLASSMQ_ALLOW_INSECURE=1 to allow this."
    )
if not is_loopback(GLASSMQ_BROKER_HOST) and not GLASSMQ_ALLOW_INSECURE:
    raise ImproperlyConfigured(
        f"GLASSMQ_BROKER_HOST={GLASSMQ_BROKER_HOST} allows RocketMQ's clients on other machines, and this broker does "
        "not authenticate them: set GLASSMQ_ALLOW_INSECURE=1 if every client that can reach the port may use it."
    )

# Attaching to a running cluster

GLASSMQ_ATTACH = text("GLASSMQ_ATTACH")
"""The name servers of a RocketMQ cluster whose brokers are followed; empty: this process has brokers of its own."""
if not re.match(ADDRESSES, GLASSMQ_ATTACH):
    raise ImproperlyConfigured(
        f"GLASSMQ_ATTACH must be host:port, or several separated by semicolons, not {GLASSMQ_ATTACH!r}."
    )
GLASSMQ_ATTACH_BROKERS = [name.strip() for name in text("GLASSMQ_ATTACH_BROKERS").split(",") if name.strip()]
GLASSMQ_ATTACH_SOURCE = choice("GLASSMQ_ATTACH_SOURCE", "auto", ("auto", "slave", "master"))
GLASSMQ_ATTACH_BEGIN = choice("GLASSMQ_ATTACH_BEGIN", "last-file", ("last-file", "min"))
GLASSMQ_ATTACH_MAX_RATE = number("GLASSMQ_ATTACH_MAX_RATE", 20, 1, 10_000)
GLASSMQ_ATTACH_KEEP_HOURS = number("GLASSMQ_ATTACH_KEEP_HOURS", 72, 1, 876_000)
GLASSMQ_ATTACH_HA = named_addresses("GLASSMQ_ATTACH_HA")

# The broker's options: RocketMQ's broker.conf, overridden by the environment

GLASSMQ_WARNINGS: list[str] = []
"""Warnings about the configuration, as sentences. Every command that starts a process prints them."""


def address_for_clients() -> str:
    """The address for RocketMQ's clients if neither the environment nor the broker.conf sets ``brokerIP1``."""
    if GLASSMQ_BROKER_HOST in {"0.0.0.0", "::"}:
        GLASSMQ_WARNINGS.append(
            f"GLASSMQ_BROKER_HOST={GLASSMQ_BROKER_HOST} accepts RocketMQ's clients from all machines, but they are "
            "told to connect to 127.0.0.1: set GLASSMQ_BROKER_IP1, or brokerIP1 in the broker.conf, to an address that "
            "clients on other machines can reach."
        )
        return "127.0.0.1"
    return "127.0.0.1" if GLASSMQ_BROKER_HOST == "localhost" else GLASSMQ_BROKER_HOST


GLASSMQ_NAMESRV_ADDR = text("GLASSMQ_NAMESRV_ADDR")
if not re.match(ADDRESSES, GLASSMQ_NAMESRV_ADDR):
    raise ImproperlyConfigured(
        f"GLASSMQ_NAMESRV_ADDR must be host:port, or several separated by semicolons, not {GLASSMQ_NAMESRV_ADDR!r}."
    )


def read_conf_file(conf: str) -> dict[str, str]:
    """The broker's options in ``GLASSMQ_BROKER_CONF``; others lead to a warning."""
    path = folder("GLASSMQ_BROKER_CONF", BASE_DIR)
    try:
        values, others = read_broker_conf(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"GLASSMQ_BROKER_CONF={conf} cannot be read: {error}.") from error
    if others.get("brokerRole") == "SLAVE":
        raise ImproperlyConfigured(
            f"{path} has brokerRole=SLAVE: its store is the copy of a master's, and GlassMQ would serve it as a "
            "master. Use the master's broker.conf, or set brokerRole=ASYNC_MASTER if this copy shall take over."
        )
    if others:
        GLASSMQ_WARNINGS.append(
            f"{path}: {', '.join(others)} are not options of this broker and are ignored; "
            "docs/options.md lists its options."
        )
    return values


def read_options(broker_port: int | None) -> Options:
    """The options of ``GLASSMQ_BROKER_CONF``, overridden by those of the environment."""
    values: dict[str, Any] = {}
    conf = text("GLASSMQ_BROKER_CONF")
    if conf:
        values = read_conf_file(conf)
    if text("GLASSMQ_BROKER_IP1"):
        values["brokerIP1"] = text("GLASSMQ_BROKER_IP1")
    if "brokerIP1" not in values:
        values["brokerIP1"] = address_for_clients()
    if text("GLASSMQ_BROKER_NAME"):
        values["brokerName"] = text("GLASSMQ_BROKER_NAME")
    if broker_port:
        values["listenPort"] = broker_port
    if GLASSMQ_NAMESRV_ADDR:
        values["namesrvAddr"] = GLASSMQ_NAMESRV_ADDR
    try:
        return make_options(values)
    except RequestError as error:
        raise ImproperlyConfigured(f"GLASSMQ_BROKER_CONF={conf}: {error.remark}.") from error


def warn_about_missing_slaves(options: Options) -> None:
    """Without haListenPort no slave can connect, and SYNC_MASTER waits for some."""
    if options.slaves_needed and not options.ha_listen_port:
        GLASSMQ_WARNINGS.append(
            f"brokerRole=SYNC_MASTER with inSyncReplicas={options.in_sync_replicas} waits for slaves, but haListenPort "
            "is off: every send is answered FLUSH_SLAVE_TIMEOUT after slaveTimeout."
        )


_broker_port = number("GLASSMQ_BROKER_PORT", 10911, 0, 65535) if text("GLASSMQ_BROKER_PORT") else None
GLASSMQ_OPTIONS = read_options(_broker_port)
warn_about_missing_slaves(GLASSMQ_OPTIONS)
GLASSMQ_BROKER_PORT = 0 if _broker_port == 0 else GLASSMQ_OPTIONS.listen_port
"""The port for RocketMQ's clients; 0: they are not served."""

# The engine

GLASSMQ_REDIS_URL = text("GLASSMQ_REDIS_URL")
if GLASSMQ_REDIS_URL and not GLASSMQ_REDIS_URL.startswith(("redis://", "rediss://")):
    raise ImproperlyConfigured(
        "GLASSMQ_REDIS_URL must begin with redis:// or rediss://, for example redis://127.0.0.1:6379/0."
    )
GLASSMQ_SOCKET = GLASSMQ_DATA_DIR / "engine.sock"
"""The Unix socket between the web process and the engine while ``GLASSMQ_ENGINE`` is ``child``."""
_socket_fits = len(os.fsencode(GLASSMQ_SOCKET)) <= 100
_beside = "child" if _socket_fits else "embedded"
GLASSMQ_ENGINE = choice(
    "GLASSMQ_ENGINE", default="remote" if GLASSMQ_REDIS_URL else _beside, allowed=("embedded", "child", "remote")
)
if GLASSMQ_ENGINE == "remote" and not GLASSMQ_REDIS_URL:
    raise ImproperlyConfigured("GLASSMQ_ENGINE=remote reaches the engine through Redis: set GLASSMQ_REDIS_URL as well.")
if GLASSMQ_ENGINE == "child" and not _socket_fits:
    raise ImproperlyConfigured(
        f"GLASSMQ_DATA_DIR={GLASSMQ_DATA_DIR} is too long for the Unix socket in it, because the socket's path may "
        "have 100 bytes: choose a shorter path, or GLASSMQ_ENGINE=embedded."
    )

GLASSMQ_BROKER_NAMES = [
    name.strip() for name in text("GLASSMQ_BROKER_NAMES", GLASSMQ_OPTIONS.broker_name).split(",") if name.strip()
]
"""The brokers that this web process reaches through Redis, by name."""
_stem = GLASSMQ_OPTIONS.broker_name.removesuffix("-a")
GLASSMQ_CLUSTER_NAMES = [
    GLASSMQ_OPTIONS.broker_name,
    *(f"{_stem}-{letter}" for letter in ascii_lowercase[1:GLASSMQ_BROKERS]),
]
"""The brokers of ``manage.py broker --cluster``: ``broker-a``, ``broker-b``, ... or, from ``x``, ``x``, ``x-b``, ..."""

# Alerts

GLASSMQ_SITE_URL = text("GLASSMQ_SITE_URL", f"http://{address_in_url(GLASSMQ_HOST)}:{GLASSMQ_WEB_PORT}").rstrip("/")
if not re.match(r"https?://[^/\s]+", GLASSMQ_SITE_URL):
    raise ImproperlyConfigured(
        f"GLASSMQ_SITE_URL must begin with http:// or https:// and a host, not {GLASSMQ_SITE_URL!r}."
    )
GLASSMQ_ALERT_HOSTS = tuple(host.strip().lower() for host in text("GLASSMQ_ALERT_HOSTS").split(",") if host.strip())
"""The hosts that alerts may be sent to by HTTP; empty: all."""
GLASSMQ_MAIL_FROM = text("GLASSMQ_MAIL_FROM", "glassmq@localhost")
GLASSMQ_SENDS_MAIL = bool(text("GLASSMQ_SMTP_URL"))
globals().update(mail_server(text("GLASSMQ_SMTP_URL")))

# Reports

GLASSMQ_SPARK_MASTER = text("GLASSMQ_SPARK_MASTER", "local[*]")
_masters = r"local(\[[\d*, ]+\])?|spark://[^\s/,]+:\d+(,[^\s/,]+:\d+)*|yarn|k8s://\S+"
_connect = r"sc://(\[[\da-fA-F:.]+\]|[\w.-]+)(:(?P<port>\d+))?(/(;\w+=[^;=/?#\s]*)*)?"
if GLASSMQ_SPARK_MASTER.startswith("sc:"):
    _url = re.fullmatch(_connect, GLASSMQ_SPARK_MASTER)
    if _url is None or int(_url["port"] or 0) > 65535:  # the value is not printed: it may contain a token
        raise ImproperlyConfigured(
            "GLASSMQ_SPARK_MASTER must be sc://host:port for Spark Connect, with parameters sc://host:port/;name=value;"
            "name=value; in a value, write %3D for =, %2F for /, %3B for ; and %25 for %."
        )
elif not re.fullmatch(_masters, GLASSMQ_SPARK_MASTER):
    raise ImproperlyConfigured(
        "GLASSMQ_SPARK_MASTER must be local[*], local[2] or the like, spark://host:port, sc://host:port (Spark "
        f"Connect), yarn or k8s://…, not {re.split('[;?@]', GLASSMQ_SPARK_MASTER)[0]!r}."
    )
GLASSMQ_SPARK_IDLE_MINUTES = number("GLASSMQ_SPARK_IDLE_MINUTES", 10, 1, 1440)


# Django


def database() -> dict[str, Any]:
    """The database of ``GLASSMQ_DATABASE_URL``; by default SQLite in the data folder, set up for several processes."""
    config = database_url("GLASSMQ_DATABASE_URL")
    if config:
        if config["ENGINE"] != "django.db.backends.sqlite3":
            return config | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
    else:
        config = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(GLASSMQ_DATA_DIR / "glassmq.sqlite3")}
    return config | {
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
        }
    }


DEBUG = False
SECRET_KEY = text("GLASSMQ_SECRET_KEY") or keep_secret_key(GLASSMQ_DATA_DIR / "secret-key")
if len(SECRET_KEY) < 32:
    raise ImproperlyConfigured("GLASSMQ_SECRET_KEY must have at least 32 characters; `openssl rand -hex 32` makes one.")
ALLOWED_HOSTS = ["127.0.0.1", "localhost", ".localhost", "[::1]"]
ALLOWED_HOSTS += [host.strip() for host in text("GLASSMQ_ALLOWED_HOSTS").split(",") if host.strip()]
if "*" in ALLOWED_HOSTS and not GLASSMQ_ALLOW_INSECURE:
    raise ImproperlyConfigured(
        "GLASSMQ_ALLOWED_HOSTS=* accepts every Host header, so that a page of another site could call the API from a "
        "visitor's browser: list the hosts, or set GLASSMQ_ALLOW_INSECURE=1 to allow this."
    )
if GLASSMQ_HOST not in {"0.0.0.0", "::"} and GLASSMQ_HOST not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(f"[{GLASSMQ_HOST}]" if ":" in GLASSMQ_HOST else GLASSMQ_HOST)

INSTALLED_APPS = [
    "daphne",  # first, because it installs the reactor, and its runserver replaces Django's
    "bridge",  # before channels, because its runworker replaces that of channels
    "channels",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "django_celery_results",
    "api",
    "dashboard",
    "spark_jobs",
    "alerts",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "dashboard.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = choice("GLASSMQ_LANGUAGE", "en", ("en", "zh-hans"))
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]  # of the pages; the API answers in English
LANGUAGE_COOKIE_NAME = "glassmq_language"
LOCALE_PATHS = [BASE_DIR / "dashboard" / "locale"]

# Static files are served from their source folders, so that no collectstatic is needed

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

# Security

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024  # the same as the API's MAX_REQUEST_BODY; Daphne stops reading beyond it
if GLASSMQ_HTTPS:  # a proxy in front speaks HTTPS and sets X-Forwarded-Proto
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]
    SECURE_HSTS_SECONDS = 31_536_000
    # These checks concern other subdomains, of which GlassMQ cannot know whether they use HTTPS.
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

# Channels: the connection between web processes and an engine in another process

if GLASSMQ_REDIS_URL:
    CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {
                # A blocking read waits 5 s, so a socket timeout of 5 s would end every idle worker. The pool's default
                # limit is lower than the number of calls that one web process may have under way.
                "hosts": [{"address": GLASSMQ_REDIS_URL, "socket_timeout": 30, "max_connections": 2000}],
                "prefix": "glassmq",
                "capacity": 10_000,
                "expiry": 60,
            },
        }
    }
else:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels.layers.InMemoryChannelLayer",
            "CONFIG": {"capacity": 10_000, "expiry": 60},
        }
    }

# Celery: schedules and reports

CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_RESULT_EXPIRES = 30 * 24 * 3600
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_BEAT_SYNC_EVERY = 1  # write the time of each run, which pages show, at once
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_SEND_TASK_EVENTS = False
if GLASSMQ_REDIS_URL:
    CELERY_BROKER_URL = GLASSMQ_REDIS_URL
    # Longer than the longest report: after this time an unfinished task is given to another worker too.
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {"visibility_timeout": 6 * 3600}
else:
    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(GLASSMQ_DATA_DIR / "celery" / "queue"),
        "data_folder_out": str(GLASSMQ_DATA_DIR / "celery" / "queue"),
        "processed_folder": str(GLASSMQ_DATA_DIR / "celery" / "processed"),
        "control_folder": str(GLASSMQ_DATA_DIR / "celery" / "control"),
        "polling_interval": 0.2,
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname:<7} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "django.channels.server": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        "daphne": {"level": "WARNING"},
        "twisted": {"level": "WARNING"},
        # It logs whole URLs, and that of a webhook is a secret.
        "httpx": {"level": "WARNING"},
        "kombu.connection": {"level": "ERROR"},  # it warns that the transport through files has no host name
    },
}

GLASSMQ_WARNINGS += [
    f"{name} is set, but GLASSMQ has no such variable; docs/operations.md lists its variables."
    for name in sorted(os.environ)
    if name.startswith("GLASSMQ_") and name not in KNOWN
]
