"""All operations, in the order of the document."""

from __future__ import annotations

from typing import Final

from duetime.server.rest.batch import SCHEDULE_BATCH
from duetime.server.rest.operation import Operation
from duetime.server.rest.tasks import OF_TASKS

OPERATIONS: Final[tuple[Operation, ...]] = (*OF_TASKS, SCHEDULE_BATCH)
