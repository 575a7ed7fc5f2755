"""Leases: workers that use HTTP claim, renew and report jobs."""
