"""Changes, each in one transaction."""
