"""Postdate and its peers in a benchmark that others wrote: adapters, and a run without containers.

The harness is hardbyte/postgresql-job-queue-benchmarking. It is not part of this project: a run
names the directory of a checkout.
"""
