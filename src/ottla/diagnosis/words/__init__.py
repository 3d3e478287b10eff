"""Judgements in sentences, with the command or the setting that helps: for commands and pages."""
