"""The foundation: clock, files, error codes, errors and ids.

Imports nothing of Ottla. Everything above takes time and the disk from here, as arguments.
Start at `files.py`.
"""
