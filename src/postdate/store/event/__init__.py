"""Events, the chain that seals them, and subscriptions to them."""
