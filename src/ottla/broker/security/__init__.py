"""Authentication and authorization: logins, users, access rules and delegation tokens.

Everything here is a value or a machine without I/O, except for `security.py`, which writes to disk.
"""
