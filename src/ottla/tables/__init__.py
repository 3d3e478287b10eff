"""Tables: data files and a ledger, in a directory or an object store.

Start at `table_directory.py`.
"""
