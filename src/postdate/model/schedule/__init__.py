"""Schedules: specification, preview and expansion."""
