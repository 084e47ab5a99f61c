"""TLS without a socket: both ends in memory."""

import os
import random
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from broker_core.server.tls import FIRST_BYTE, TlsError, TlsOptions, TlsRecords, make_context, self_signed


@pytest.fixture(scope="module")
def context() -> ssl.SSLContext:
    return make_context(TlsOptions())


class Client:
    """The other end."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self.incoming, self.outgoing)

    def shake(self) -> bytes:
        """One step of the handshake; what it sends."""
        with suppress(ssl.SSLWantReadError):
            self.object.do_handshake()
        return self.outgoing.read()

    def establish(self, records: TlsRecords) -> None:
        while not records.established:
            plaintext, answer = records.receive(self.shake())
            assert plaintext == b""
            self.incoming.write(answer)
        self.shake()

    def encrypt(self, plaintext: bytes) -> bytes:
        self.object.write(plaintext)
        return self.outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self.incoming.write(data)
        plaintext = b""
        while len(plaintext) < 1_000_000:
            try:
                chunk = self.object.read(65536)
            except ssl.SSLWantReadError:
                break
            if not chunk:
                break
            plaintext += chunk
        return plaintext


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


def test_records_are_encrypted_and_decrypted_in_both_directions(context: ssl.SSLContext, client: Client) -> None:
    records = TlsRecords(context)
    client.establish(records)
    assert records.receive(client.encrypt(b"one") + client.encrypt(b"two")) == (b"onetwo", b"")
    large = os.urandom(300_000)
    assert client.decrypt(records.send(large)) == large
    assert records.receive(client.encrypt(large))[0] == large
    assert not records.ended and not records.refused


def test_byte_by_byte(context: ssl.SSLContext, client: Client) -> None:
    records = TlsRecords(context)
    hello = client.shake()
    assert hello[0] == FIRST_BYTE
    answers = b"".join(records.receive(bytes([byte]))[1] for byte in hello)
    client.incoming.write(answers)
    client.establish(records)
    data = client.encrypt(b"slowly")
    assert b"".join(records.receive(bytes([byte]))[0] for byte in data) == b"slowly"


def test_the_peer_ends_it(context: ssl.SSLContext, client: Client) -> None:
    records = TlsRecords(context)
    client.establish(records)
    last = client.encrypt(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.object.unwrap()
    assert records.receive(last + client.outgoing.read())[0] == b"last"
    assert records.ended and not records.refused


def test_the_server_ends_it(context: ssl.SSLContext, client: Client) -> None:
    records = TlsRecords(context)
    client.establish(records)
    assert client.decrypt(records.send(b"last") + records.end()) == b"last"
    assert client.object.read() == b""  # the end, and not a connection that broke


def test_ending_what_never_began(context: ssl.SSLContext) -> None:
    records = TlsRecords(context)
    assert isinstance(records.end(), bytes)
    records.receive(Client().shake()[:50])
    assert isinstance(records.end(), bytes)


def test_half_a_hello_is_waited_for(context: ssl.SSLContext) -> None:
    hello = Client().shake()
    for end in range(1, len(hello)):
        records = TlsRecords(context)
        assert records.receive(hello[:end])[0] == b""
        assert not (records.established or records.ended or records.refused)


def test_a_client_without_tls_is_refused_with_the_reason(context: ssl.SSLContext) -> None:
    records = TlsRecords(context)
    plaintext, alert = records.receive(b"\x16 nothing of the kind, at some length")
    assert plaintext == b""
    assert records.refused
    assert alert == b"" or alert[0] == 21


def test_spoiled_records_are_refused(context: ssl.SSLContext, client: Client) -> None:
    records = TlsRecords(context)
    client.establish(records)
    data = bytearray(client.encrypt(b"a frame"))
    data[-1] ^= 1
    plaintext, alert = records.receive(bytes(data))
    assert (plaintext, records.established) == (b"", True)
    assert records.refused
    assert alert[0] in (21, 23)


@pytest.mark.seeds(20)
def test_spoiled_hellos_never_raise(context: ssl.SSLContext, seed: int) -> None:
    chance = random.Random(seed)
    hello = bytearray(Client().shake())
    for _ in range(chance.randint(1, 5)):
        hello[chance.randrange(1, len(hello))] = chance.randrange(256)
    records = TlsRecords(context)
    plaintext, _ = records.receive(bytes(hello))
    assert plaintext == b""


def test_tls_1_1_is_refused(context: ssl.SSLContext) -> None:
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


# --- Certificates -----------------------------------------------------------------------------------------------------


def test_a_certificate_that_is_given(tmp_path: Path) -> None:
    pem = self_signed()
    end = pem.index(b"-----BEGIN CERTIFICATE")
    both, key, certificate = tmp_path / "both.pem", tmp_path / "key.pem", tmp_path / "cert.pem"
    both.write_bytes(pem)
    key.write_bytes(pem[:end])
    certificate.write_bytes(pem[end:])
    for options in (TlsOptions(cert_path=str(both)), TlsOptions(cert_path=str(certificate), key_path=str(key))):
        records, client = TlsRecords(make_context(options)), Client()
        client.establish(records)
        assert client.object.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(pem[end:].decode())


def test_generated_certificates_differ() -> None:
    assert self_signed() != self_signed()


def test_a_generated_certificate_names_this_machine() -> None:
    pem = self_signed().decode()
    context = ssl.create_default_context(cadata=pem[pem.index("-----BEGIN CERTIFICATE") :])
    server, incoming, outgoing = TlsRecords(make_context(TlsOptions())), ssl.MemoryBIO(), ssl.MemoryBIO()
    stranger = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        stranger.do_handshake()
    incoming.write(server.receive(outgoing.read())[1])
    with pytest.raises(ssl.SSLCertVerificationError):  # signed by another key of the same name
        stranger.do_handshake()


@pytest.mark.parametrize("name", ["missing", "empty", "folder", "encrypted"])
def test_a_certificate_that_cannot_be_used_is_a_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "empty":
        path.touch()
    elif name == "folder":
        path.mkdir()
    elif name == "encrypted":
        path.write_bytes(encrypted_key() + self_signed().partition(b"-----END PRIVATE KEY-----\n")[2])
    with pytest.raises(TlsError, match=rf"{name} \(tlsCertPath\) with the key in the same file"):
        make_context(TlsOptions(cert_path=str(path)))


def encrypted_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
