"""The page for an address that is not there."""

from __future__ import annotations

from http import HTTPStatus

from duetime.server.admin.answers import Page, get
from duetime.server.admin.page_request import Visit


def not_found(_: Visit) -> Page:
    """Say that there is no such page."""
    sentence = "There is no such page. The navigation lists all pages."
    status = HTTPStatus.NOT_FOUND
    return Page("problem.html", status.phrase, {"sentence": sentence, "status": status.value}, status)


NOT_FOUND_ROUTES = (get("/{rest:path}", not_found, query=None),)
