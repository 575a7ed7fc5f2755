"""Break it on purpose: mixed life over HTTP, faults from outside, and checks of what is left."""
