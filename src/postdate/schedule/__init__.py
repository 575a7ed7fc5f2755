"""Schedules: recurring rules and the book of their occurrences."""
