"""The second checker of a chaos run: the standard library, SQL, and no code of the first one."""
