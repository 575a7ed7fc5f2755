"""Connections: pools, transactions, named queries, and what keeps them healthy."""
