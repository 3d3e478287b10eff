"""TLS, a login, or both, in front of a broker that has neither: what stands where Kafka's would."""

import base64
import hashlib
import hmac
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.tls import in_tls
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import encode_response, read_request_header
from ottla.protocol.messages import request_class
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.threaded_server import ThreadedServer

USER, PASSWORD = "ana, of =tea", "pot & kettle"
SALT, ITERATIONS = b"salt of the sea", 4096

Login = Callable[[bytes], bytes | None]
"""Takes a client's token; `None` refuses it."""


class SecuredFront(ThreadedServer):
    """Passes frames on to `127.0.0.1:port` of those that have logged in, if there is to be a login.

    `mechanism` is the one that it takes, or empty.
    """

    def __init__(self, mechanism: str = "", context: ssl.SSLContext | None = None) -> None:
        self._mechanism = mechanism
        self._context = context
        self.broker_port = 0
        super().__init__()

    def __enter__(self) -> "SecuredFront":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, plain: socket.socket) -> None:
        peer = plain
        if self._context is not None:
            peer = in_tls(self._context, plain, is_server=True)
            self._open.append(peer)
            peer.do_handshake()
        broker = socket.create_connection(("127.0.0.1", self.broker_port))
        with peer, broker, peer.makefile("rb") as asked, broker.makefile("rb") as answered:
            session = _Session(self._mechanism)
            while size := asked.read(4):
                frame = asked.read(int.from_bytes(size, "big"))
                answer = session.answer(frame)
                if answer is None:
                    broker.sendall(size + frame)
                    length = answered.read(4)
                    answer = length + answered.read(int.from_bytes(length, "big"))
                peer.sendall(answer)


class _Session:
    """One connection's login."""

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._is_in = not mechanism
        self._scram = ScramServer(mechanism) if mechanism.startswith("SCRAM") else None

    def answer(self, frame: bytes) -> bytes | None:
        """`None` for what the broker is to answer; raises `OSError` to hang up."""
        header, position = read_request_header(memoryview(frame))
        if self._is_in or header.api_key == ApiKey.API_VERSIONS:
            return None
        request, _ = reader(request_class(header.api_key), header.api_version)(
            memoryview(frame), position
        )
        output = Output()
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            is_known = request.mechanism == self._mechanism
            code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer: Message = SaslHandshakeResponse(error_code=code, mechanisms=[self._mechanism])
        elif header.api_key == ApiKey.SASL_AUTHENTICATE:
            answer = self._logged_in(bytes(request.auth_bytes))
        else:
            raise OSError("nobody is logged in")
        encode_response(header, answer, output)
        return bytes(output.read_all())

    def _logged_in(self, token: bytes) -> SaslAuthenticateResponse:
        if self._scram is None:
            reply: bytes | None = None
            if token == f"\0{USER}\0{PASSWORD}".encode():
                self._is_in, reply = True, b""
        else:
            reply = self._scram.answer(token)
            self._is_in = self._scram.is_done
        if reply is None:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return SaslAuthenticateResponse(error_code=code, error_message="Authentication failed")
        return SaslAuthenticateResponse(auth_bytes=reply)


class ScramServer:
    """The server's half, from what it stores: the salted password's two keys, never itself."""

    def __init__(self, mechanism: str) -> None:
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        salted = hashlib.pbkdf2_hmac(self._hash, PASSWORD.encode(), SALT, ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        self._stored_key = hashlib.new(self._hash, client_key).digest()
        self._server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._said: list[bytes] = []
        self.is_done = False

    def answer(self, token: bytes) -> bytes | None:
        if not self._said:
            bare = token.removeprefix(b"n,,")
            name, nonce = (part[2:].decode() for part in bare.split(b","))
            if name.replace("=2C", ",").replace("=3D", "=") != USER:
                return None
            salt = base64.b64encode(SALT).decode()
            challenge = f"r={nonce}server,s={salt},i={ITERATIONS}".encode()
            self._said = [bare, challenge]
            return challenge
        without_proof, _, proof = token.rpartition(b",p=")
        signed = b",".join([*self._said, without_proof])
        signature = hmac.digest(self._stored_key, signed, self._hash)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self._hash, key).digest() != self._stored_key:
            return None
        self.is_done = True
        return b"v=" + base64.b64encode(hmac.digest(self._server_key, signed, self._hash))


def certificate_files(directory: Path) -> tuple[Path, Path]:
    """A certificate of `localhost` that signs itself, and its key, in PEM files."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
