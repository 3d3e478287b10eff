"""Decodes values of records to columns, a batch at a time, and reports values that cannot be
decoded.
"""
