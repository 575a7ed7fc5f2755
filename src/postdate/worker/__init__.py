"""Claim due jobs, run their handlers, record the outcomes."""
