"""Reads topics, groups, settings and users from a data directory's files, without a broker.

Each class has some methods of an `Admin`, by the same names. Nothing is locked, repaired or
written: it works in a directory of another Kafka, and while another process has it open.
"""
