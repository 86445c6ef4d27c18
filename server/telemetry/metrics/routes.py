"""The route `/metrics`: open where callers are not authenticated, else for operators with `admin:read`."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from duetime.scheduler.principal import Scope
from duetime.server.auth.access import AccessRefused, requires
from duetime.server.telemetry.metrics.metrics import Metrics
from duetime.tools.threads import cross
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

METRICS_PATH = "/metrics"

_operator = requires(Scope.ADMIN_READ, "metrics")


def metrics_routes(metrics: Metrics) -> Sequence[BaseRoute]:
    """Return the route; metrics are of all tenants, so an administrator of one of them may not read them."""

    async def answer(request: Request) -> Response:
        if not _operator(request).operator:
            refused = "Metrics are of all tenants: the key of an operator is required"
            raise AccessRefused(HTTPStatus.FORBIDDEN, "insufficient_scope", refused, Scope.ADMIN_READ)
        text, media_type = await cross(metrics.text, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    return [Route(METRICS_PATH, answer)]
