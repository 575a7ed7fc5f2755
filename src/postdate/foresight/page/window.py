"""The windows that a forecast is asked for."""

from datetime import timedelta
from typing import Final, Literal

WindowName = Literal["hour", "day", "week", "month", "year"]

WINDOWS: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "year": timedelta(days=365),
}
