"""Accounts: balances, entries and terms."""
