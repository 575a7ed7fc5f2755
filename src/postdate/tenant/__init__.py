"""Tenants: names, roles, quotas, tiers."""
