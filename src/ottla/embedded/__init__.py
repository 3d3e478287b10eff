"""The log in your own process: a broker without sockets, unless it listens.

May import `server`, `broker` and below. Start at `log.py`.
"""
