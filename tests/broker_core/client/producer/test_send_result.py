from broker_core.client.producer.send_result import RETRY_CODES, STATUSES


def test_codes_of_stored_messages_and_of_those_worth_another_attempt() -> None:
    assert STATUSES == {
        0: "SEND_OK",
        10: "FLUSH_DISK_TIMEOUT",
        11: "SLAVE_NOT_AVAILABLE",
        12: "FLUSH_SLAVE_TIMEOUT",
    }
    assert {17, 14, 1, 2, 16, 204, 205, 1500} == RETRY_CODES
