"""Operations of settings. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.settings import SettingList
from postdate.client.operation import Operation

LIST_SETTINGS: Final = Operation("list_settings", "GET", "/settings", SettingList)
PUT_SETTING: Final = Operation("put_setting", "PUT", "/settings/{name}", SettingList)
CLEAR_SETTING: Final = Operation("clear_setting", "DELETE", "/settings/{name}", NoneType)
