"""Jobs: work that is due at an instant."""
