"""Words of the API that a newer server may have more of."""

from enum import StrEnum
from typing import Self


class OpenEnum(StrEnum):
    """One of a few words; one that this client does not know yet is taken as it is.

    It equals its text: `job.status == "COMPLETED"`.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        found = str.__new__(cls, value)
        found._name_ = value.upper()
        found._value_ = value
        return found
