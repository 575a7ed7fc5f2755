"""Bulk actions: the same done to many jobs or schedules, in the background."""
