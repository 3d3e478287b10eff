"""The commands: one file each, loaded only when called.

May import everything. Only this room reads the environment and files of settings, and only it
writes to the terminal. Start at `main.py`.
"""
