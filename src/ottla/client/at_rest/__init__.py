"""What a data directory's files say of topics, groups, settings and users, without a broker.

Each class answers some questions of an `Admin`, by the same names. Nothing is locked, repaired or
written: it works in a directory of another Kafka, and while another process has it open.
"""
