"""TLS of the remoting port: the server's certificate, and one connection's records, without a socket."""

import ipaddress
import ssl
from contextlib import suppress
from datetime import datetime
from tempfile import NamedTemporaryFile
from typing import Literal

import msgspec

FIRST_BYTE = 0x16
"""First byte of a TLS connection. That of a remoting frame is 0 or 1, the top byte of its length."""
_PLAINTEXT = 256 * 1024

TlsMode = Literal["disabled", "permissive", "enforcing"]


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """RocketMQ's TlsSystemConfig, as far as a server needs it. Without a certificate, the server creates one."""

    mode: TlsMode = "permissive"
    cert_path: str = ""
    key_path: str = ""


class TlsError(Exception):
    """The configured certificate or key cannot be used. The message is a sentence."""


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """The server's context for TLS 1.2 and above. Slow: it reads files and may create a key. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not options.cert_path:
        with NamedTemporaryFile(
            prefix="glassmq-", suffix=".pem"
        ) as file:  # readable by its owner only; a file, because ssl reads only files
            file.write(self_signed())
            file.flush()
            context.load_cert_chain(file.name)
        return context
    try:
        context.load_cert_chain(options.cert_path, options.key_path or None, password=_no_password)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise TlsError(
            f"the certificate {options.cert_path} (tlsCertPath) with the key "
            f"{options.key_path or 'in the same file'} (tlsKeyPath) cannot be used: {error}"
        ) from error
    return context


def _no_password() -> str:
    """Without this, OpenSSL would ask the terminal for the password of an encrypted key and wait."""
    raise ValueError("the key is encrypted; give one without a password")


def self_signed() -> bytes:
    """A new key and a certificate for this machine's own names, signed by itself, in PEM."""
    from cryptography import x509  # slow to import, and only needed where no certificate is given
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "GlassMQ")])
    names = x509.SubjectAlternativeName(
        [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)


class TlsRecords:
    """The server's end of one connection's TLS. No method raises; an error of the peer is in ``refused``."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False
        self.ended = False
        """The peer has ended its side of TLS."""
        self.refused = ""
        """The error after which nothing more can be decrypted; empty without one."""

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Decrypt bytes of the peer. Returns (plaintext, bytes to send to the peer now)."""
        self._incoming.write(data)
        plaintext = bytearray()
        try:
            if not self.established:
                self._object.do_handshake()
                self.established = True
            while chunk := self._object.read(_PLAINTEXT):
                plaintext += chunk
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.refused = error.reason or str(error)
        return bytes(plaintext), self._outgoing.read()

    def send(self, plaintext: bytes) -> bytes:
        """Encrypt, once ``established``. Returns the bytes to send."""
        view = memoryview(plaintext)
        with suppress(ssl.SSLError):  # the connection is broken, which ``receive`` reports
            while view:
                view = view[self._object.write(view) :]
        return self._outgoing.read()

    def end(self) -> bytes:
        """End this side of TLS, without waiting for the peer's end. Returns the bytes to send."""
        with suppress(ssl.SSLError):
            self._object.unwrap()
        return self._outgoing.read()
