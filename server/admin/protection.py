"""The protection of the admin page in a browser: headers of every answer, and checks of every form."""

from __future__ import annotations

from urllib.parse import urlsplit

from duetime.scheduler.errors import DuetimeError
from starlette.requests import Request
from starlette.responses import Response

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PROTECTION_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NO_STORE = "no-store"
TOKEN_FIELD = "csrf_token"  # nosec B105 # noqa: S105 - the name of a field
TOKEN_HEADER = "x-csrf-token"  # nosec B105 # noqa: S105 - the name of a header


class ForeignForm(DuetimeError):
    """The form is not one of this page's own: nothing was done."""

    code = "foreign_form"


def protected(response: Response, *, cache: str = NO_STORE) -> Response:
    """Return the answer with the headers that every answer has."""
    response.headers.update({**PROTECTION_HEADERS, "Cache-Control": cache})
    return response


def check_own_page(request: Request, own_origins: tuple[str, ...]) -> None:
    """Raise ForeignForm unless a page of this very server sent the form."""
    if not is_own_page(request, own_origins):
        raise ForeignForm("This form was not sent by a page of this server. Nothing was done. Open the page again.")


def is_own_page(request: Request, own_origins: tuple[str, ...]) -> bool:
    """Whether a page of this very server sent the form.

    Browsers name the origin of every form that they post; that of another site, or none, is refused.
    """
    origin = request.headers.get("origin", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    own = {f"{request.url.scheme}://{request.headers.get('host', '')}", *own_origins}
    return site == "same-origin" and urlsplit(origin).scheme in {"http", "https"} and origin in own
