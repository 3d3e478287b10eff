"""The text of diagnoses, with the commands and settings that help, for commands and pages."""
