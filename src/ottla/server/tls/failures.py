"""Why a handshake failed, for the one who keeps the broker: OpenSSL's reasons in plain words."""

import ssl
from typing import Final

REASONS: Final = {
    "HTTP_REQUEST": "it speaks HTTP",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP",
    "WRONG_VERSION_NUMBER": "it speaks no TLS; clients of this listener set security.protocol",
    "UNSUPPORTED_PROTOCOL": "it speaks none of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "it has none of ssl.cipher.suites",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and ssl.client.auth=required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the broker's certificate (unknown CA)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it finds the broker's certificate expired",
}


def reason_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return "it hung up"
    if isinstance(error, ssl.SSLError) and error.reason:
        return REASONS.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error)
