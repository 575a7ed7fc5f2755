"""Settings that can be changed while Postdate runs."""
