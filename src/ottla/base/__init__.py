"""The foundation: clock, files, error codes, errors and ids.

Imports nothing of Ottla. All other packages get time and disk as arguments of the types here. Start
at `files.py`.
"""
