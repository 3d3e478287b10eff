"""Why a handshake failed, for the broker's administrator: OpenSSL's reasons in plain words."""

import ssl
from typing import Final

REASONS: Final = {
    "HTTP_REQUEST": "it speaks HTTP",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP",
    "WRONG_VERSION_NUMBER": "it does not use TLS; clients of this listener must set "
    "security.protocol",
    "UNSUPPORTED_PROTOCOL": "it supports none of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "it supports none of ssl.cipher.suites",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it presents no certificate, but ssl.client.auth=required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the broker's certificate (unknown CA)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it rejects the broker's certificate as expired",
}


def reason_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return "it hung up"
    if isinstance(error, ssl.SSLError) and error.reason:
        return REASONS.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error)
