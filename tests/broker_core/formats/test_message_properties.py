import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import message_properties as properties

words = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=8)


@given(st.dictionaries(words, words, max_size=6))
def test_properties_round_trip_in_both_tail_forms(wanted: dict[str, str]) -> None:
    text = properties.encode(wanted)
    assert properties.decode(text) == wanted
    assert properties.decode(text[:-1]) == wanted
    for name in wanted:
        assert properties.find(text, name) == properties.find(text[:-1], name) == wanted[name]


def test_only_the_complete_name_is_found() -> None:
    text = properties.encode({"MYTAGS": "no", "X": "TAGS"})
    assert properties.find(text, "TAGS") == ""
    assert properties.find(text + "TAGS\x01yes", "TAGS") == "yes"


def test_the_last_of_two_entries_with_one_name_counts() -> None:
    text = "K\x01a\x02K\x01b\x02"
    assert properties.find(text, "K") == properties.decode(text)["K"] == "b"


def test_entries_without_name_or_value_are_ignored() -> None:
    assert properties.decode("\x01v\x02n\x01\x02\x02k\x01v") == {"k": "v"}


@pytest.mark.parametrize("text", ["", "A\x01b\x02", "A\x01b"])
def test_appending_adds_a_missing_separator(text: str) -> None:
    assert properties.decode(properties.append(text, "N", "v")) == properties.decode(text) | {"N": "v"}


@pytest.mark.parametrize("wanted", [{"": "v"}, {"a\x01": "v"}, {"a": "v\x02"}])
def test_separators_in_names_or_values_are_refused(wanted: dict[str, str]) -> None:
    with pytest.raises(properties.PropertiesError):
        properties.encode(wanted)


def test_removing_and_replacing_properties() -> None:
    text = "A\x011\x02B\x012\x02A\x013\x02\x02C\x014"
    assert properties.without(text, ("A",)) == "B\x012\x02C\x014\x02"
    assert properties.without(text, ("",)) == "A\x011\x02B\x012\x02A\x013\x02C\x014\x02"
    assert properties.without("", ("A",)) == ""
    assert properties.put(text, {"A": "5", "D": "6"}) == "B\x012\x02C\x014\x02A\x015\x02D\x016\x02"


@given(st.dictionaries(words, words, max_size=6), st.dictionaries(words, words, max_size=3))
def test_a_replaced_property_occurs_once_and_others_stay(before: dict[str, str], put: dict[str, str]) -> None:
    text = properties.put(properties.encode(before), put)
    assert properties.decode(text) == before | put
    assert text.count(properties.NAME_END) == len(before | put)
