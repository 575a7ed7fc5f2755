"""`postdate destination`: the operations on destinations, and to make sure that one exists."""

from postdate.cli.ensure import ensure_command
from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import Sugar

destination_app = noun_app("destination")
_CREATE = find("destination", "create_destination")
ensure_command(_CREATE, "destinations", "name", Sugar()).add_to(destination_app, "ensure")
