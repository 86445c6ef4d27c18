"""All operations, in the order of the document."""

from __future__ import annotations

from typing import Final

from duetime.server.rest.administration.alerts import OF_ALERTS
from duetime.server.rest.administration.audit import OF_AUDIT
from duetime.server.rest.administration.decisions import OF_DECISIONS
from duetime.server.rest.administration.doctor import OF_DOCTOR
from duetime.server.rest.administration.imports import OF_IMPORT
from duetime.server.rest.administration.policy import OF_POLICY
from duetime.server.rest.administration.quiet_hours import OF_QUIET_HOURS
from duetime.server.rest.administration.report import OF_REPORTS
from duetime.server.rest.administration.retention import OF_RETENTION
from duetime.server.rest.administration.secrets import OF_SECRETS
from duetime.server.rest.administration.shadow import OF_SHADOW
from duetime.server.rest.administration.top import OF_TOP
from duetime.server.rest.operation import Operation
from duetime.server.rest.resources.batch import CHANGE_MANY, SCHEDULE_BATCH
from duetime.server.rest.resources.costs import OF_COSTS
from duetime.server.rest.resources.dead_letters import OF_DEAD_LETTERS
from duetime.server.rest.resources.history import OF_HISTORY
from duetime.server.rest.resources.inbox import OF_INBOX
from duetime.server.rest.resources.installation import OF_INSTALLATION
from duetime.server.rest.resources.keys import OF_KEYS
from duetime.server.rest.resources.run_log import OF_RUN_LOGS
from duetime.server.rest.resources.runs import RUN_OPERATIONS
from duetime.server.rest.resources.tasks import OF_TASKS
from duetime.server.rest.resources.workers import OF_WORKERS
from duetime.server.rest.signals.addresses import OF_FIRE_ADDRESSES
from duetime.server.rest.signals.events import OF_EVENTS_SENT

OPERATIONS: Final[tuple[Operation, ...]] = (
    *OF_TASKS,
    SCHEDULE_BATCH,
    CHANGE_MANY,
    *OF_EVENTS_SENT,
    *OF_FIRE_ADDRESSES,
    *OF_INBOX,
    *OF_QUIET_HOURS,
    *OF_HISTORY,
    *OF_DEAD_LETTERS,
    *RUN_OPERATIONS,
    *OF_COSTS,
    *OF_REPORTS,
    *OF_RUN_LOGS,
    *OF_INSTALLATION,
    *OF_WORKERS,
    *OF_DECISIONS,
    *OF_KEYS,
    *OF_SECRETS,
    *OF_AUDIT,
    *OF_POLICY,
    *OF_SHADOW,
    *OF_RETENTION,
    *OF_ALERTS,
    *OF_TOP,
    *OF_IMPORT,
    *OF_DOCTOR,
)
