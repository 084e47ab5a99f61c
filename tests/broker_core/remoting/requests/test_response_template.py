"""A template says what the encoder says, byte for byte."""

from hypothesis import given
from hypothesis import strategies as st

from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.response_template import ResponseTemplate, success_frame

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEMPLATE = ResponseTemplate(b'"number":"%d","text":"%b"')


@given(INT32, INT32)
def test_a_frame_without_fields(code: int, opaque: int) -> None:
    request = RemotingCommand.request(11, {}, opaque=opaque)
    assert ResponseTemplate(b"").frame(request, code, "", ()) == request.response(code).encode()


@given(INT32)
def test_a_frame_that_says_success(opaque: int) -> None:
    request = RemotingCommand.request(11, {}, opaque=opaque)
    assert success_frame(request) == request.response(0).encode()


@given(
    INT32,
    INT32,
    st.sampled_from(["", "FOUND", "NO_MATCHED_MESSAGE"]),
    st.integers(),
    st.from_regex(r"[A-Z0-9,]*", fullmatch=True),
    st.binary(max_size=40),
)
def test_a_frame(code: int, opaque: int, remark: str, number: int, text: str, body: bytes) -> None:
    request = RemotingCommand.request(11, {}, opaque=opaque)
    plain = request.response(code, remark, {"number": str(number), "text": text}, body)
    assert TEMPLATE.frame(request, code, remark, (number, text.encode()), body) == plain.encode()
