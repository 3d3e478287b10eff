"""Settings as rows (name, type, default, bounds, description), from which everything else is
generated.

May import `base`. Users only ever see Kafka's names; attributes are the same names with
underscores. Start at `setting.py`.
"""
