"""The values that options take; `--help` lists them, and any other value is refused."""

from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

JobStatus: TypeAlias = Literal[
    "PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "UNKNOWN"
]
OpenStatus: TypeAlias = Literal["PENDING", "READY", "RUNNING"]
PaymentStatus: TypeAlias = Literal["PENDING", "EXECUTING", "COMPLETED", "FAILED", "CANCELLED"]
Resolution: TypeAlias = Literal["completed", "failed", "retry"]
Backoff: TypeAlias = Literal["exponential", "linear", "fixed"]
OnUnknown: TypeAlias = Literal["retry", "hold"]
Funding: TypeAlias = Literal["hold", "at_execution"]
Roll: TypeAlias = Literal["none", "following", "modified_following", "preceding"]
Overlap: TypeAlias = Literal["allow", "skip", "buffer_one", "cancel_running"]
Nothing: TypeAlias = Literal["none"]
"""Takes a limit away."""

WholeOrNone = Annotated[int | Nothing | None, Parameter(help="A number, or none for no limit.")]
DecimalOrNone = Annotated[float | Nothing | None, Parameter(help="A number, or none for no limit.")]
