"""A table: data files and a manifest, in a directory or an object store.

Start at `table_directory.py`.
"""
