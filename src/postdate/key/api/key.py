"""Keys: create, list, rotate, revoke."""

from typing import Final

from postdate.key.change.key import Keys
from postdate.key.view import KeyViews
from postdate.resource.endpoints import ServedClass, serve

ROUTES: Final = serve(
    "keys",
    ServedClass(KeyViews, lambda services: services.key.read),
    ServedClass(Keys, lambda services: services.key.change),
)
