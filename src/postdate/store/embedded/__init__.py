"""Our own PostgreSQL: one cluster in one data directory, supervised by this process."""

from postdate.store.embedded.credentials import Credentials, Login
from postdate.store.embedded.supervisor import Embedded, find

__all__ = ["Credentials", "Embedded", "Login", "find"]
