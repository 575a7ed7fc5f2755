"""Timers: what is due in which lane, who has leased it, and which limits hold."""
