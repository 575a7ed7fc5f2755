"""Leases: what workers that ask over HTTP claim, renew and report."""
