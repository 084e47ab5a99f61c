from broker_core.properties import parse_properties


def test_properties() -> None:
    text = "#c\n!c\n\n a = 1 \r\nb=x=y\nlone\na=2\n"
    assert parse_properties(text) == {"a": "2", "b": "x=y", "lone": ""}
