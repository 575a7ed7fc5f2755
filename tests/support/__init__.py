"""What the tests share: oracles, faults, receivers, and ready-made tenants, each a module."""
