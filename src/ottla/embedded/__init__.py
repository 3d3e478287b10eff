"""The log in your own process: a broker without sockets, until you ask for one.

May import `server`, `broker` and below. Start at `log.py`.
"""
