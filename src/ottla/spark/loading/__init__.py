"""The steps of a load: from where to where, the job, and what is held against the log."""
