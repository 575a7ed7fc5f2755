"""Halts: the kill switch and freeze windows."""
