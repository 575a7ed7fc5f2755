"""Measure one peer: `python -m postdate_lab.bench.peers NAME`, its order on the standard input.

Under its own name, and not as `__main__`: some peers import their jobs again by that name.
"""

import sys
from importlib import import_module

from postdate_lab.bench.peers.contract import answer

answer(import_module(f"postdate_lab.bench.peers.{sys.argv[1]}").measure)
