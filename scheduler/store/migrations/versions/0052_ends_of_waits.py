"""Runs that wait for an answer or an event are due when their waits end, to which earlier versions added a day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

APPROVALS = (
    "SELECT ends_at FROM approvals WHERE run_id = runs.id AND approvals.attempt = runs.attempt AND closed_at IS NULL"
)
EVENTS = "SELECT until FROM signal_waits WHERE waiter_id = runs.id AND closed_at IS NULL"
DUE = "UPDATE runs SET wake_at = ({end}), listed_at = ({end}) WHERE state = 'suspended' AND wake_at = ({end}) + {day}"


def upgrade() -> None:
    connection = op.get_bind()
    day = "INTERVAL '24 hours'" if connection.dialect.name == "postgresql" else "86400000000"
    for end in (APPROVALS, EVENTS):
        connection.execute(sa.text(DUE.format(end=end, day=day)))
