"""The console as a command."""
