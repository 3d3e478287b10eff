"""TLS on the server's loop: keys and certificates, handshakes, and what carries bytes afterwards.

Imported only where a listener has TLS. Kafka's counterparts: `SslFactory`, `SslTransportLayer`.
"""
