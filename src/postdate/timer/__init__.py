"""Timers: one narrow row for everything that must happen at an instant."""
