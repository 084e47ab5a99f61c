"""Situations that a broker causes."""

from tests.fakes.facts import condition, facts, found, ids, verdicts


def test_a_broker_that_does_not_answer_makes_the_group_unknown() -> None:
    answer = verdicts(facts(), unavailable=["broker-b"])
    assert (answer.state, ids(answer)) == ("unknown", ["broker_away"])
    assert answer.verdicts[0].sentence == "No answer from broker-b: what g does there is unknown."


def test_a_broker_that_stops() -> None:
    answer = verdicts(facts(broker=condition(draining=True, holds=1200, problem="the broker is shutting down")))
    assert answer.verdicts[0].sentence == (
        "Broker broker-a is shutting down and refuses pulls; 1,200 held pulls are left to answer."
    )
    assert answer.verdicts[0].evidence["holds"] == 1200
    assert ids(answer)[0] == "broker_draining" and "broker_refuses_messages" not in ids(answer)


def test_a_broker_that_accepts_no_messages_says_why() -> None:
    answer = verdicts(facts(broker=condition(problem="the disk is 97 % full")))
    assert answer.verdicts[0].sentence == "Broker broker-a accepts no messages: the disk is 97 % full."
    assert "ok" not in ids(answer) and "idle" not in ids(answer)


def test_the_limit_of_held_pulls() -> None:
    answer = verdicts(facts(broker=condition(holds=5000, max_holds=5000)))
    assert found(answer, "holds_used_up").evidence == {"broker": "broker-a", "holds": 5000, "max_holds": 5000}


def test_messages_that_wait_for_the_disk() -> None:
    answer = verdicts(facts(broker=condition(undispatched_bytes=4096)))
    assert found(answer, "flush_behind").sentence.startswith("4,096 bytes of stored messages wait for the disk")


def test_senders_that_waited_in_vain_for_slaves() -> None:
    answer = verdicts(facts(broker=condition(slave_timeouts=12, slaves_needed=1, slaves=0)))
    assert found(answer, "slaves_behind").sentence == (
        "Broker broker-a answered 12 requests with FLUSH_SLAVE_TIMEOUT: inSyncReplicas needs 1 slave with each "
        "message, and 0 are connected."
    )
    assert found(answer, "slaves_behind").evidence["slaves"] == 0


def test_an_engine_that_is_busier_than_it_can_be() -> None:
    answer = verdicts(facts(broker=condition(late_ms=1820, refused=1200)))
    assert found(answer, "engine_busy").sentence == (
        "Broker broker-a is busy: commands waited up to 1,820 ms for their turn; 1,200 commands got SYSTEM_BUSY."
    )
    assert "ok" not in ids(answer) and "idle" not in ids(answer)
    assert found(verdicts(facts(broker=condition(late_ms=100))), "engine_busy").sentence.endswith("for their turn.")


def test_of_an_attached_broker_the_age_of_the_offsets_is_said() -> None:
    answer = verdicts(facts(broker=condition(attached=True, tables_age_ms=4000)))
    sentence = found(answer, "attached").sentence
    assert sentence.startswith("broker-a is attached: which pulls are held there,")
    assert sentence.endswith("The committed offsets are 4 s old, so messages in the lag may be consumed already.")
    unknown = verdicts(facts(broker=condition(attached=True)))
    assert found(unknown, "attached").sentence.endswith("have not been fetched yet, so the lag is not known.")
