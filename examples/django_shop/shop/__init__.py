"""A shop that confirms its orders by mail, later."""
