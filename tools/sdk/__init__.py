"""Writes the operations, models and errors of `postdate.client` from the API's own endpoints."""
