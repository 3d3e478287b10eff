"""Share groups (KIP-932): several members read a partition together, and each record is delivered
until a member has accepted it.

Pure machines, without I/O and clock.
"""
