"""A client of our own, for commands that ask a broker a few questions.

May import `protocol` and below. Start at `connection.py`.
"""
