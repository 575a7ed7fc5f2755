"""Expand recurring schedules into jobs and payments when their timer is due."""
