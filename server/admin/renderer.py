"""Renders templates: escaping always on, and a name that a page forgot is an error, not a gap."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from duetime.server.admin.assets import asset_url
from duetime.server.admin.formats import FILTERS
from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(template: str, values: dict[str, Any]) -> str:
    """Return the HTML of a template."""
    return environment().get_template(template).render(values)


def load_overview() -> None:
    """Compile the templates of the overview, for which the first page of a process would wait."""
    for name in ("base.html", "frame.html", "parts.html", "pages/overview.html"):
        environment().get_template(name)


@cache
def environment() -> Environment:
    """Return the environment of all templates, which are read from the package once."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.filters["points"] = json.dumps
    made.globals["asset"] = asset_url
    return made


def _source(name: str) -> str | None:
    found = files("duetime.server.admin").joinpath("templates", name)
    return found.read_text("utf-8") if found.is_file() else None
