"""Authentication and authorization: logins, users, access rules and delegation tokens.

Everything here is a value or a machine without I/O; only `security.py` writes to disk.
"""
