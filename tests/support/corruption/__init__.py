"""What somebody with a superuser's rights may do to the tables, and how it must be found."""
