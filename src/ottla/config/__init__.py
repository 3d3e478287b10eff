"""Settings as rows: name, type, default, bounds and sentence, from which all else is made.

May import `base`. Users only ever see Kafka's names; attributes are the same names with
underscores. Start at `setting.py`.
"""
