"""Schedules and calendars; the jobs and payments that occurrences become."""
