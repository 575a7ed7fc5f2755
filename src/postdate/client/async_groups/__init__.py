"""The calls of the asynchronous client. Written by `make docs` from the endpoints."""
