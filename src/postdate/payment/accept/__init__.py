"""The way in: validate, decide and write a group in one commit."""
