"""What was taken from others is whole, and says where it is from."""

import hashlib
from pathlib import Path

UPLOT = Path(__file__).parents[2] / "static" / "vendor" / "uplot"


def test_uplot_is_what_its_sums_say() -> None:
    sums = dict(reversed(line.split()) for line in (UPLOT / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {path.name for path in UPLOT.iterdir()} - {"SHA256SUMS"}
    for name, expected in sums.items():
        assert hashlib.sha256((UPLOT / name).read_bytes()).hexdigest() == expected, name


def test_uplot_names_its_version_and_licence() -> None:
    version = (UPLOT / "VERSION").read_text().strip()
    assert f"(v{version})" in (UPLOT / "uPlot.esm.js").read_text()[:400]
    assert "MIT" in (UPLOT / "LICENSE").read_text()
