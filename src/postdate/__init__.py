"""Anything, later, exactly once."""
