"""Tasks: functions that run later, on a worker."""

from postdate.task.app import Postdate
from postdate.task.handle import TaskFailedError, TaskHandle, TaskResultError
from postdate.task.task import Task

__all__ = ["Postdate", "Task", "TaskFailedError", "TaskHandle", "TaskResultError"]
