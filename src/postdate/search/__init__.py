"""Find anything by its id or name."""
