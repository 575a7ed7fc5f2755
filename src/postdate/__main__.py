"""`python -m postdate`: the command, where `postdate` is not on the path."""

from postdate.cli.main import main

if __name__ == "__main__":
    main()
