"""What the client calls things: the API's own words, made unique and short."""

from typing import Final

from postdate.core.operation_name import client_method
from postdate.http.endpoint import AnyEndpoint

MODELS: Final = {
    "postdate.job.spec.job.Webhook": "WebhookDestination",
    "postdate.job.spec.job.Queue": "QueueDestination",
    "postdate.job.spec.job.Worker": "WorkerDestination",
    "Scheduled": "ScheduledPayment",
    "Adjusted": "AdjustedAccount",
    "Executed": "ExecutedPayment",
    "Book": "OccurrenceList",
    "DestinationTestResult": "DestinationTrial",
    "Status": "OccurrenceStatus",
    "Waiting": "WaitingPayment",
    "WaitingList": "ApprovalList",
    "CloudEvent": "Event",
    "ComingView": "ComingOccurrence",
    "AcceptedSchedule": "AcceptedSchedule",
    "Code": "ProblemCode",
    "RenewView": "RenewedLease",
    "CancelledJobResult": "CancelledJobEffect",
    "ReportView": "LeaseReport",
    "JobBatchItem": "BatchJob",
    "CreatedKey": "NewKey",
    "KeyedOrder": "BatchPayment",
    "AdvanceView": "AdvancedClock",
    "TestClockView": "ClockState",
}
"""Models whose name in the API's code says too little beside all the others."""

WORDS: Final = {"from": "from_"}
"""Fields that are words of Python."""


def place(endpoint: AnyEndpoint) -> tuple[str, str]:
    """Say in which group an operation stands, and what its method is called."""
    return client_method(endpoint.handler.__name__, endpoint.tag, endpoint.path)


def model(kind: type) -> str:
    """Name a model of the API in the client."""
    full = f"{kind.__module__}.{kind.__qualname__}"
    return MODELS.get(full) or MODELS.get(kind.__name__) or kind.__name__.removesuffix("View")


def identifier(name: str) -> str:
    """Name a field in Python."""
    return WORDS.get(name, name)
