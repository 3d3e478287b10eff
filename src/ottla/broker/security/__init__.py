"""Who may come, and what they may do: logins, users, access rules and delegation tokens.

Everything here is a value or a machine without I/O; `security.py` alone writes to the disks.
"""
