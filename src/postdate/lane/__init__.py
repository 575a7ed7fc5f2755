"""Lanes: a tenant's queues of jobs, with their limits."""
