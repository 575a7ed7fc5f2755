"""Keys: create, list, rotate, revoke."""

from typing import Final

from postdate.key.change.key import Keys
from postdate.key.view import KeyViews
from postdate.resource.endpoints import Served, serve

ROUTES: Final = serve(
    "keys",
    Served(KeyViews, lambda services: services.key.read),
    Served(Keys, lambda services: services.key.change),
)
