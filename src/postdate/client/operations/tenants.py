"""Operations of tenants. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.tenants import NewTenant, TenantList
from postdate.client.operation import Operation

CREATE_TENANT: Final = Operation(
    "create_tenant", "POST", "/internal/tenants", NewTenant, keyed=True, internal=True
)
LIST_TENANTS: Final = Operation(
    "list_tenants", "GET", "/internal/tenants", TenantList, internal=True
)
DISABLE_TENANT: Final = Operation(
    "disable_tenant", "POST", "/internal/tenants/{name}/disable", NoneType, internal=True
)
ENABLE_TENANT: Final = Operation(
    "enable_tenant", "POST", "/internal/tenants/{name}/enable", NoneType, internal=True
)
