"""Run-time settings as a tenant asks for them and sees them."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from postdate.core.setting.table import SettingValue, TenantMay
from postdate.core.shape import Spec, View

HeldValue = Annotated[
    SettingValue, Meta(description="A number, a string, true or false.", examples=[5])
]


class SettingSpec(Spec, kw_only=True):
    """The value to set."""

    value: HeldValue


class SettingView(View, frozen=True, kw_only=True):
    """A setting as a tenant sees it: the current value, and who set it.

    `own` is the tenant's own value; the operator may have set a tighter one since.
    """

    name: Annotated[str, Meta(description="The setting's name.", examples=["job.max_attempts"])]
    value: Annotated[SettingValue, Meta(description="The value that holds.", examples=[5])]
    set_by: Annotated[
        Literal["default", "operator", "tenant"],
        Meta(description="Who decides the value that holds.", examples=["default"]),
    ]
    default: Annotated[
        SettingValue, Meta(description="The value while it is not set.", examples=[3])
    ]
    doc: Annotated[
        str, Meta(description="What the setting does.", examples=["How often a job is tried."])
    ]
    tenant_may: Annotated[
        TenantMay, Meta(description="What the tenant itself may do with the setting.")
    ]
    own: Annotated[
        SettingValue | None,
        Meta(description="What the tenant has set itself; null when nothing.", examples=[5]),
    ] = None
    changed_at: Annotated[
        datetime | None,
        Meta(description="When it last changed.", examples=["2031-01-02T09:00:00Z"]),
    ] = None
    changed_by: Annotated[
        str | None,
        Meta(
            description="The key that changed it last.",
            examples=["0198c0de-5a4e-7abc-8def-0123456789ab"],
        ),
    ] = None
