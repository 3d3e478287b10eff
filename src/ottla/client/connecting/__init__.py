"""Connections to brokers: over sockets, or to a log in this process; and signing in."""
