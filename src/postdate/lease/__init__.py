"""Leases: jobs that a remote worker claims, renews and completes."""
