"""An archive of the classes that Spark's Java loads (class data sharing). With it Spark starts in a third less time.

The first Java lists its classes. The second one starts another Java, which writes the archive from that list in the
background. Each later one maps the archive. A Java of another version ignores it.
"""

import hashlib
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

# Java crashes if it maps an archive that a power cut has shortened, so the file is on the disk before it has its name.
_WRITE = 'nice -n 19 "$1" "@$2" "-XX:SharedArchiveFile=$3" && sync "$3" && mv "$3" "$4"; rm -f "$2" "$3" "$5"'


class ClassArchive:
    """The archive of one Java and the installed Spark, in the folder ``scratch``. ``own``: this process's folder."""

    def __init__(self, java_home: Path, scratch: Path, own: Path) -> None:
        digest = hashlib.sha256(f"{java_home} {version('pyspark')}".encode()).hexdigest()[:12]
        self._java = java_home / "bin" / "java"
        self._own = own
        self._classes = scratch / f"classes-{digest}.list"
        self._arguments = scratch / f"classes-{digest}.args"
        self.file = scratch / f"classes-{digest}.jsa"
        self.is_listing = False

    def options(self) -> str:
        """Java's options for a start. Begins to write the archive if there is a list of its classes."""
        if self.file.exists():
            return f'"-XX:SharedArchiveFile={self.file}" -Xlog:cds=off -Xlog:class+path=off'
        if self._arguments.exists():
            self.write()
            return ""
        self.is_listing = True
        return f'"-XX:DumpLoadedClassList={self._own / self._classes.name}"'

    def write(self) -> "subprocess.Popen[bytes] | None":
        """Write the archive in a process of its own. It takes 30 seconds of a processor and 190 MB.

        None if another process has begun this. If it fails, the next Java lists its classes anew.
        """
        taken = self._arguments.with_suffix(".taken")
        try:
            self._arguments.replace(taken)
        except FileNotFoundError:
            return None
        for left in self.file.parent.glob("classes-*.new"):  # by a process that was killed
            left.unlink(missing_ok=True)
        draft = self.file.with_suffix(f".{os.getpid()}.new")
        return subprocess.Popen(
            ["sh", "-c", _WRITE, "sh", *map(str, (self._java, taken, draft, self.file, self._classes))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def note_class_path(self, class_path: str) -> None:
        """Note Java's class path while Java lists its classes: both are needed to write the archive."""
        if self.is_listing:
            arguments = (
                "-Xshare:dump",
                "-XX:+UseSerialGC",
                f'"-XX:SharedClassListFile={self._classes}"',
                f'-cp "{class_path}"',
            )
            (self._own / self._arguments.name).write_text("\n".join(arguments))

    def keep_list(self) -> None:
        """Keep the list of classes, which is complete when Java has ended."""
        for kept in (self._classes, self._arguments) if self.is_listing else ():
            listed = self._own / kept.name
            if listed.exists():
                listed.replace(kept)
        self.is_listing = False
