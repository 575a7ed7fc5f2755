"""The calls of the API, by group. Written by `make docs` from the endpoints."""
