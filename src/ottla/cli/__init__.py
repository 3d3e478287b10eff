"""The commands: a folder for each noun, a file for each command, loaded only when called.

May import everything. Only this room reads the environment and files of settings, and only it
writes to the terminal. Start at `main.py`, which names every command.
"""
