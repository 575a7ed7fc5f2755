"""Events: what happened, sealed into a chain for each tenant."""
