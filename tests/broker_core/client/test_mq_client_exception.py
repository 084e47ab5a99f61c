from broker_core.client.mq_client_exception import MQBrokerException


def test_a_refusal_says_who_refused_and_why() -> None:
    error = MQBrokerException(17, "no such topic", "127.0.0.1:10911")
    assert str(error) == "127.0.0.1:10911 answered TOPIC_NOT_EXIST (17): no such topic"
    assert str(MQBrokerException(205, "", "a:1")) == "a:1 answered 205: no reason was given"
