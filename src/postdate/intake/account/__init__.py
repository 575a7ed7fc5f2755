"""Accounts: their limits, adjustments and repairs."""
