"""Tenants: keys, settings, quotas and halts."""
