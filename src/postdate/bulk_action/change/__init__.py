"""Begin, stop and work off bulk actions."""
