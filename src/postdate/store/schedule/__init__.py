"""Schedules, their calendars and their occurrences."""
