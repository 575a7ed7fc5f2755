"""Changes that are made together."""
