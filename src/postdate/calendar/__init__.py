"""Calendars: days on which schedules do not fire, or fire elsewhere."""
