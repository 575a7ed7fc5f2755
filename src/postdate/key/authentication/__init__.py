"""Identify a caller by key or token."""
