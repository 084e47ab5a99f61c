#!/bin/sh
# The tests use a browser, a Redis server and Node.js, which no Python package brings, and a JDK, Maven and Go for the
# stock RocketMQ clients. On Debian and Ubuntu what is missing is installed; elsewhere a sentence says what to install.
# Without the last three the tests of the stock clients are left out, which the end of the test run says loudly.
# Without Prometheus' promtool its rules are not checked.
set -eu

missing=""
command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
command -v ps >/dev/null 2>&1 || missing="$missing procps"
clients=""
command -v javac >/dev/null 2>&1 || clients="$clients default-jdk-headless"
command -v mvn >/dev/null 2>&1 || clients="$clients maven"
command -v go >/dev/null 2>&1 || clients="$clients golang-go"
if command -v apt-get >/dev/null 2>&1; then
    missing="$missing$clients"
elif [ -n "$clients" ]; then
    echo "For tests of the stock RocketMQ clients install what Debian calls$clients; they are left out." >&2
fi
command -v promtool >/dev/null 2>&1 || promtool=missing
[ -n "$missing${promtool:-}" ] || exit 0

if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif sudo -n true 2>/dev/null; then
        as_root="sudo"
    elif [ -z "$missing" ]; then
        exit 0 # only promtool is missing, without which its tests are skipped
    else
        echo "The tests need these Debian packages:$missing. Install them, then 'make test' again." >&2
        exit 1
    fi
    echo "Installing for the tests:$missing${promtool:+ promtool}"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    # shellcheck disable=SC2086  # several words on purpose
    [ -z "$missing" ] ||
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    if [ -n "${promtool:-}" ]; then
        # Installing the package would start a Prometheus server, so only the program is taken from it.
        folder=$(mktemp -d)
        if (cd "$folder" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb .) >/dev/null 2>&1; then
            $as_root install "$folder/usr/bin/promtool" /usr/local/bin/promtool
        else
            echo "promtool could not be taken from Debian's package prometheus; Prometheus' rules are not checked." >&2
        fi
        rm -rf "$folder"
    fi
elif [ -n "$missing" ]; then
    echo "The tests need programs that are not on the PATH:$missing. Install them, then 'make test' again." >&2
    exit 1
fi
