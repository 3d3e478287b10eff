"""Sockets and threads: listeners, connections, what is received and what is to be sent."""
