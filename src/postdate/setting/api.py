"""Run-time settings of a tenant: list, set, clear."""

from typing import Final

from postdate.resource.endpoints import ServedClass, serve
from postdate.setting.change import SettingChanges
from postdate.setting.view import SettingViews

ROUTES: Final = serve(
    "settings",
    ServedClass(SettingViews, lambda services: services.setting.read),
    ServedClass(SettingChanges, lambda services: services.setting.change),
)
