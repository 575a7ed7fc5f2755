"""The HTTP machinery: connections, requests, limits, answers; it knows no route."""
