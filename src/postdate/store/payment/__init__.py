"""Payments: accepted, changed, approved and settled."""
