"""Tenants: identity, rights, quotas, halts and test clocks."""
