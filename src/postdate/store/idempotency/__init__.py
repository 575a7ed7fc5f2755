"""Which requests were seen before."""
