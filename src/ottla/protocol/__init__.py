"""Kafka's wire protocol without a socket: frames, headers, and every message in every version.

May import `record` and below. Start at `framing.py`, then any file of `messages/`.
"""
