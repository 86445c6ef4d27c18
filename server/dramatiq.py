"""Workers under Dramatiq's own command line: `dramatiq duetime.server.dramatiq:broker --processes 2 --threads 8`.

The loops around its threads (dispatcher, leases, outcomes, maintenance) start and stop with each of its processes.
"""

from __future__ import annotations

from duetime.server.app import Role, build
from duetime.server.settings.source import load_settings
from duetime.server.workers.worker import check_distributed


def broker() -> None:
    """Make this process a worker, by the settings of the environment; Dramatiq calls this in each that it starts."""
    settings = load_settings()
    check_distributed(settings)

    def end() -> None:
        app.close()

    app = build(settings, role=Role.WORK, hosted=end)
    app.start()
