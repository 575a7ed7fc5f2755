"""Receipts: signed proofs of one payment."""
