"""Tenants: their keys, settings, halts, quotas and rate limits."""
