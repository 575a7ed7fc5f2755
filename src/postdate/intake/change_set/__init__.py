"""Change sets: preview, apply and undo changes."""
