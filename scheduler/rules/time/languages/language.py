"""The words that a language has for times and recurrences, each with the English of the same meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Language:
    """The words of one language: lists with commas between, in the order of the English ones, and forms with `/`.

    `ago` stands before a length of time, or behind it. `hours` may stand after a time of day as well (`9 heures`);
    `oclock` is no length of time. `numbers` go from 1 to 20. `idioms` count both the day that they begin and the one
    that they end on, or not. `before_hour` and `after_hour` move the hour that they stand next to by so many minutes.
    `before` stands before a day, and `before_clock` before a bare hour too (`antes de 2 horas` may be a length).
    A `limit` before a length of time is the English one; before a day it is `by`, as the words of `by` are.
    `occasions` are at no fixed time of day (`zum Mittagessen`). `every_other` has a weekday for each `{}`.
    `habits` are a part of the day behind a time, and a recurrence before one. `late` is the night that comes.
    `afterwards` stands behind a length of time, `calendar_week` before the number of a week alone. A window has
    `between` before it and the conjunction in it, or `window_from` and `window_to`, and words such as `at` and `by`.
    `adds_minutes`, the conjunction stands between an hour and its minutes (`las nueve y diez`) as well as between two.
    """

    into: str
    ago: str
    at: str
    articles: str
    following: str
    weekdays: str
    months: str
    numbers: str
    units: Mapping[str, str]
    days: Mapping[str, str]
    parts: Mapping[str, str]
    times: Mapping[str, str]
    occasions: Mapping[str, str]
    lengths: Mapping[str, str]
    by: str
    before: str
    before_clock: str
    within: str
    limit: Mapping[str, str]
    edges: Mapping[str, str]
    late: str
    next_week: str
    every: str
    conjunction: str
    plural_weekdays: str
    monthly: str
    of_month: str
    ordinals: str
    exceptions: str
    holidays: str
    rules: Mapping[str, str]
    hours: str = "h"
    oclock: str = ""
    more_numbers: Mapping[str, str] = field(default_factory=dict)
    before_hour: Mapping[str, str] = field(default_factory=dict)
    after_hour: Mapping[str, str] = field(default_factory=dict)
    habits: Mapping[str, str] = field(default_factory=dict)
    compounds: Mapping[str, str] = field(default_factory=dict)
    alternate: str = ""
    afterwards: Mapping[str, str] = field(default_factory=dict)
    calendar_week: str = ""
    between: str = ""
    window_from: str = ""
    window_to: str = ""
    later: Mapping[str, str] = field(default_factory=dict)
    idioms: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    adds_minutes: bool = False
    every_other: str = ""
