"""Accounts, holds and entries: the only code that changes a balance."""
