"""`postdate lane`: the operations on lanes, and to make sure that one exists."""

from postdate.cli.ensure import ensure_command
from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import Sugar

lane_app = noun_app("lane")
_CREATE = find("lane", "create_lane")
ensure_command(_CREATE, "lanes", "lane", Sugar()).add_to(lane_app, "ensure")
