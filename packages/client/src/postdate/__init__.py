"""Anything, later, exactly once: a durable scheduler that can also move money."""

from pkgutil import extend_path

# The server is a distribution of its own with rooms in the same package; where both are installed
# from source trees, this finds them in both.
__path__ = extend_path(__path__, __name__)
