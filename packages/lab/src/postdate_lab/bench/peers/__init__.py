"""Other schedulers, measured on the same machine: each in a process of its own.

A peer is a module here with a function `measure`, which `__main__` runs: it reads a `PeerOrder`
from its standard input and writes `PeerRates` as the last line of its standard output. So a peer
brings its own event loop, driver and dependencies, and none is imported where Postdate is measured.
"""
