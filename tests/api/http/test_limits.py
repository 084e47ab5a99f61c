"""Limits that only make sense together."""

from django.conf import settings

from api.http import limits


def test_one_message_fits_into_one_frame_and_one_request_as_base64() -> None:
    as_base64 = limits.MAX_MESSAGE_BODY * 4 // 3 + limits.MAX_SMALL_BODY
    assert as_base64 < limits.MAX_FRAME < limits.MAX_REQUEST_BODY


def test_a_client_is_not_cut_for_frames_that_waited_for_room() -> None:
    assert limits.ROOMY + limits.LARGE_FRAME < limits.MAX_UNSENT


def test_pulls_hold_at_most_4_mib_for_a_socket_that_is_not_read() -> None:
    answer = 256 * limits.KIB  # of a pull, unless one message alone has more
    in_the_server = limits.SERVER_BUFFER + answer
    in_the_outbox = limits.ROOMY + answer
    assert in_the_server + in_the_outbox + limits.MAX_BUFFERED <= 4 * limits.MIB
    assert limits.MAX_READS_PER_SOCKET * answer <= limits.MAX_BUFFERED, "or a fast reader's pulls are made twice"


def test_a_pull_may_wait_longer_than_its_default() -> None:
    assert 0 < limits.DEFAULT_WAIT_MS < limits.MAX_WAIT_MS < limits.IDLE_SECONDS * 1000


def test_the_server_stops_reading_where_the_api_would() -> None:
    assert limits.MAX_REQUEST_BODY == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
