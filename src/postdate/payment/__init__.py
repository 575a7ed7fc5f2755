"""Payments: an amount from one account to another, at an instant."""
