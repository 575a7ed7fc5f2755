"""Read on behalf of a client, under row-level security."""
