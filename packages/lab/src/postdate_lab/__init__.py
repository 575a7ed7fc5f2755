"""Measure Postdate and break it on purpose; nothing here is part of the product."""
