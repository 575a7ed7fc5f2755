"""Our own PostgreSQL: one cluster in one data directory, supervised by this process."""

from postdate.database.embedded.credentials import Credentials, Login
from postdate.database.embedded.supervisor import Embedded, find

__all__ = ["Credentials", "Embedded", "Login", "find"]
