"""Rows: one typed function for each named query."""
