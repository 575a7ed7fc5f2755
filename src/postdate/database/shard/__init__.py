"""Shards: the schema distributed over the nodes of a Citus cluster."""
