"""The routes of the admin page, as `duetime serve` mounts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from duetime.server.admin.answers import AdminRoute
from duetime.server.admin.assets import ASSETS_PATH, assets
from duetime.server.admin.failures import shielded
from duetime.server.admin.live import LiveFeed
from duetime.server.admin.login import Login
from duetime.server.admin.page_request import ROOT
from duetime.server.admin.pages import (
    audit,
    cost,
    dead,
    not_found,
    overview,
    policy,
    pools,
    run,
    runs,
    schedules,
    timeline,
    workers,
)
from duetime.server.admin.protection import protected
from duetime.server.admin.site import AdminSite, endpoint
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

if TYPE_CHECKING:
    from duetime.server.app import App
    from duetime.server.auth.guard import Guard
    from duetime.server.settings.model import Settings

FOR_EVER = "public, max-age=31536000, immutable"

PAGE_ROUTES: tuple[Sequence[AdminRoute], ...] = (
    *(
        overview.OVERVIEW_ROUTES,
        runs.RUNS_ROUTES,
        run.RUN_ROUTES,
        dead.DEAD_ROUTES,
        schedules.SCHEDULE_ROUTES,
        timeline.TIMELINE_ROUTES,
    ),
    *(pools.POOL_ROUTES, workers.WORKER_ROUTES, cost.COST_ROUTES),
    *(audit.AUDIT_ROUTES, policy.POLICY_ROUTES),
    not_found.NOT_FOUND_ROUTES,
)
"""The routes of every page; the one for whatever is not there comes last."""


def routes(current: Callable[[], App], settings: Settings, guard: Guard | None) -> Sequence[BaseRoute]:
    """Return every route below `/admin`."""
    site = AdminSite(current, settings, guard)
    feed = LiveFeed(lambda: current().store, site.visitors)
    return [
        Route(f"{ASSETS_PATH}{{name}}", static_file, methods=["GET"]),
        Route(f"{ROOT}/", shielded(_to_first_page), methods=["GET"]),
        *(_logins(site, settings) if guard is not None else ()),
        Route(f"{ROOT}/live", shielded(feed.serve), methods=["GET"]),
        *(_route(site, route) for page in PAGE_ROUTES for route in page),
    ]


def _logins(site: AdminSite, settings: Settings) -> Sequence[Route]:
    keys = "keys" in settings.auth
    if not settings.oidc_client_id:
        return Login(site, keys=keys).routes()
    from duetime.server.admin.oidc_login import OidcLogin, provider_of, way_in  # noqa: PLC0415 - cryptography

    login = Login(site, keys=keys, ways=(way_in(settings),))
    return [*login.routes(), *OidcLogin(site, login, provider_of(settings)).routes()]


def _route(site: AdminSite, route: AdminRoute) -> Route:
    path = ROOT if route.path == "/" else f"{ROOT}{route.path}"
    return Route(path, shielded(endpoint(site, route)), methods=[route.method])


async def _to_first_page(_request: Request) -> Response:
    return protected(RedirectResponse(ROOT, HTTPStatus.PERMANENT_REDIRECT))


async def static_file(request: Request) -> Response:
    """Answer with a file that pages load."""
    found = assets().get(request.path_params["name"])
    if found is None:
        return protected(Response("There is no such file.", HTTPStatus.NOT_FOUND, media_type="text/plain"))
    response = Response(found.content, media_type=found.media_type)
    return protected(response, cache=FOR_EVER)
