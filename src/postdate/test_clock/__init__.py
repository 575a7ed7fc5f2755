"""Test clocks: a tenant's own time, moved by hand."""
