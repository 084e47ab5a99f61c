"""Names in a lake."""

from pathlib import Path

from spark_jobs.lake.folders import brokers, lake_name, next_broker, notes_path


def test_a_broker_is_named_by_the_stores_path(tmp_path: Path) -> None:
    store = tmp_path / "my store"
    assert lake_name(store).startswith("my-store-")
    assert lake_name(store) == lake_name(tmp_path / "x" / ".." / "my store")
    assert lake_name(store) != lake_name(tmp_path / "other" / "my store")


def test_the_brokers_of_stores_at_one_path_in_their_order(tmp_path: Path) -> None:
    name = lake_name("/data/store")
    assert brokers(tmp_path / "nowhere", "/data/store") == []
    assert next_broker(tmp_path, "/data/store") == name
    for suffix in ("", "-10", "-9", "-2", "-notes", "2"):
        Path(notes_path(tmp_path, f"{name}{suffix}")).touch()
    assert brokers(tmp_path, "/data/store") == [name, f"{name}-2", f"{name}-9", f"{name}-10"]
    assert next_broker(tmp_path, "/data/store") == f"{name}-11"
