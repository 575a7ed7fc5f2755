"""The schema: what `migrate` applies and upgrades, and the rules that SQL reads from it."""
