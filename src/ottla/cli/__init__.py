"""The commands: a folder for each noun, a file for each command, imported only when called.

May import everything. Only this package reads the environment and settings files, and only it
writes to the terminal. Start at `main.py`, which names every command.
"""
