"""API keys, sessions and tokens: who a caller is."""
