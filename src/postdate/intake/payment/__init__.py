"""Payments: accept, approve, change and execute them."""
