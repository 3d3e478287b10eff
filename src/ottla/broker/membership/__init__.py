"""The cluster that a broker belongs to, if it belongs to one."""
