"""The command `postdate`: parse the command line, call the server or the database, print."""
