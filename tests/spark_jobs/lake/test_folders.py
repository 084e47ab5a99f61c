"""Names of lakes."""

from pathlib import Path

from spark_jobs.lake.folders import generations, lake_name


def test_a_lake_is_named_by_the_stores_path(tmp_path: Path) -> None:
    store = tmp_path / "my store"
    assert lake_name(store).startswith("my-store-")
    assert lake_name(store) == lake_name(f"file://{tmp_path}/my%20store")
    assert lake_name(store) == lake_name(tmp_path / "x" / ".." / "my store")
    assert lake_name(store) != lake_name(tmp_path / "other" / "my store")
    assert lake_name("s3://bucket/stores/a").startswith("a-")


def test_the_lakes_of_a_store_in_their_order(tmp_path: Path) -> None:
    name = lake_name("/data/store")
    assert generations(tmp_path / "nowhere", "/data/store") == []
    for suffix in ("", "-10", "-9", "-2", "-notes", "2"):
        (tmp_path / f"{name}{suffix}").mkdir()
    (tmp_path / f"{name}-3").write_text("no folder")
    assert [path.name for path in generations(tmp_path, "/data/store")] == [
        name,
        f"{name}-2",
        f"{name}-9",
        f"{name}-10",
    ]
