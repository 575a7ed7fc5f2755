"""Who is calling: API keys and signed tokens."""
