"""Settle due payments: claim, decide and write in one commit."""
