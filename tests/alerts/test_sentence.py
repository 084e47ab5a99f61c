from django.utils.translation import override

from alerts.facts import duration_text
from alerts.sentence import VERDICTS, Sentence, localized
from bridge.port import PROBLEMS


def test_a_sentence_is_english_until_it_is_localized() -> None:
    sentence = Sentence("the disk is {0} % full", "91.5")
    assert (sentence, localized(sentence)) == ("the disk is 91.5 % full", "the disk is 91.5 % full")
    with override("zh-hans"):
        assert localized(sentence) == "磁盘已用 91.5%"
        assert sentence == "the disk is 91.5 % full"


def test_values_that_are_sentences_are_localized_too() -> None:
    with override("zh-hans"):
        assert localized(Sentence("a message has waited {0}", duration_text(725_000))) == "有消息已等待 12 分 5 秒"
        assert localized(Sentence("stalled")) == "停滞"


def test_a_plain_string_and_what_only_looks_like_a_place_stay_as_they_are() -> None:
    with override("zh-hans"):
        assert localized("stalled") == "stalled"
        assert localized(Sentence("the engine does not answer: {0}", "{1} {x}")).endswith("{1} {x}")


def test_each_problem_of_a_group_has_its_words() -> None:
    assert list(VERDICTS) == list(PROBLEMS)
    with override("zh-hans"):
        text = localized(Sentence("{0}: {1}", Sentence(VERDICTS["no_member"]), "No member of g is online."))
    assert text.endswith("No member of g is online.") and not text.startswith("no member")
