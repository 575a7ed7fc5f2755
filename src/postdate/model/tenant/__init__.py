"""Tenants: who asks, what is allowed, and what is halted."""
