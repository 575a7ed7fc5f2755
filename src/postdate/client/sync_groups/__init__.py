"""The calls of the synchronous client. Written by `make docs` from the endpoints."""
