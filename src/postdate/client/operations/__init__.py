"""The operations of the API, as values. Written by `make docs` from the endpoints."""
