"""Changes that are tried out, made together, and undone."""
