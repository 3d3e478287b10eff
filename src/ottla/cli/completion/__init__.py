"""Completion of commands, options, topics and groups in bash, zsh and fish."""
