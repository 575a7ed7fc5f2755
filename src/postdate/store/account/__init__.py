"""Accounts, their entries and their repairs."""
