"""Natural keys: templates by which the work of an occurrence is known, whichever task and run does it.

`{tenant}:{label.account}:{window}` names the tenant, the label `account:...` of the task, and the occurrence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import Formatter
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.rules.occurrences import window_of
from duetime.scheduler.task import Run, Task

WINDOW: Final = "window"
LABEL_FIELD: Final = "label."
MAX_RENDERED_CHARS: Final = 200

_PLAIN: Final = ("tenant", "user", "action")
_ARGUMENT: Final = "idempotency_key"
_USUAL: Final = "{tenant}:{label.account}:{window}"
_ACCEPTED: Final = "{tenant}, {user}, {action}, {label.NAME} and {window}, with {{ and }} for braces"
_LONGEST_WINDOW: Final = datetime(2026, 1, 1, 0, 0, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """A key with fields in braces: texts, each with the name of the field behind it, which the last one may lack."""

    parts: tuple[tuple[str, str | None], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields, in their order."""
        return tuple(name for _, name in self.parts if name is not None)

    @property
    def has_window(self) -> bool:
        """Whether each occurrence has a key of its own."""
        return WINDOW in self.fields

    def of_call(self, values: Mapping[str, str]) -> str:
        """Return the key of a call: all but the window is filled in, and braces of values are doubled."""
        filled = {name: _escaped(value) for name, value in values.items()}
        return self._joined({**filled, WINDOW: f"{{{WINDOW}}}"}, braces=True)

    def of_run(self, values: Mapping[str, str], window: datetime) -> str:
        """Return the key of an occurrence."""
        return self._joined({**values, WINDOW: window_text(window)}, braces=False)

    def _joined(self, values: Mapping[str, str], *, braces: bool) -> str:
        texts = ((_escaped(text) if braces else text, name) for text, name in self.parts)
        return "".join(text + (values[name] if name is not None else "") for text, name in texts)


def template_of(text: str | None) -> KeyTemplate | None:
    """Return a key as a template; None for one without fields. Raises InvalidArgument for malformed ones."""
    if text is None or ("{" not in text and "}" not in text):
        return None
    try:
        parts = tuple(_parts(text))
    except ValueError:
        example = _first_good(text[:-1], f"{text}}}")
        raise _wrong(f"{text[:60]!r} has a brace without its other half", example) from None
    found = KeyTemplate(parts)
    for name in found.fields:
        if not _is_field(name):
            meant = text.replace(f"{{{name}}}", f"{{{_near(name)}}}")
            raise _wrong(f"'{{{name[:40]}}}' is not a field", _first_good(meant))
    return found if found.fields else None


def template_text(text: str | None) -> str | None:
    """Return a key if it is a template, as tasks keep it. Raises InvalidArgument for a malformed one."""
    return text if template_of(text) else None


def field_values(template: KeyTemplate, tenant: str, user: str, action: str, labels: Sequence[str]) -> dict[str, str]:
    """Return the values of a template's fields but the window. Raises InvalidArgument for a label that is missing."""
    named = [name for name in template.fields if name.startswith(LABEL_FIELD)]
    known = {"tenant": tenant, "user": user, "action": action}
    return known | {name: _value(name.removeprefix(LABEL_FIELD), labels) for name in named}


def check_template(text: str, template: KeyTemplate, values: Mapping[str, str], *, recurring: bool) -> None:
    """Raise InvalidArgument unless each occurrence of a task gets a key of its own, of a length that can be sent."""
    if recurring and not template.has_window:
        problem = "without {window} all occurrences of a recurring task would have the same key"
        raise _wrong(problem, f"{text}:{{window}}", accepted="a template with {window}")
    length = len(template.of_run(values, _LONGEST_WINDOW))
    if length > MAX_RENDERED_CHARS:
        problem = f"it has {length} characters with its fields filled in"
        raise _wrong(problem, "{label.account}:{window}", accepted=f"up to {MAX_RENDERED_CHARS}")


def key_of_run(task: Task, run: Run) -> str | None:
    """Return the key of a run by the template of its task; None without one, or where a field has no value."""
    found = _filled_in(task)
    return found[0].of_run(found[1], window_of(run)) if found else None


def check_kept(before: Task, after: Task) -> None:
    """Raise InvalidArgument for a change of a task by which its keys would be others, or all the same."""
    found = _filled_in(before)
    if found is None or before.key_template is None:
        return
    template, had = found
    check_template(before.key_template, template, had, recurring=after.repeat is not None)
    for name in template.fields:
        if name.startswith(LABEL_FIELD) and _found(name.removeprefix(LABEL_FIELD), after.labels) != [had[name]]:
            label = f"{name.removeprefix(LABEL_FIELD)}:{had[name]}"
            raise InvalidArgument(
                "labels",
                f"the idempotency key of the task has its label {label!r}",
                accepted="labels with this one; another value is another task",
                example=f"labels={[label]!r}",
            )


def _filled_in(task: Task) -> tuple[KeyTemplate, dict[str, str]] | None:
    """Return the template of a task with the values of its fields; None without one, or where a field has no value."""
    try:
        template = template_of(task.key_template)
        if template is None:
            return None
        return template, field_values(template, task.tenant, task.owner, task.action, task.labels)
    except InvalidArgument:  # an older process of the installation has changed the labels
        return None


def window_text(at: datetime) -> str:
    """Return the instant of an occurrence as keys have it: `2026-11-24T09:00Z`, with seconds if it has them."""
    at = at.astimezone(UTC).replace(tzinfo=None)
    return f"{at.isoformat(timespec='auto' if at.second or at.microsecond else 'minutes')}Z"


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    for literal, name, form, conversion in Formatter().parse(text):
        rest = "".join((f"!{conversion}" if conversion else "", f":{form}" if form else ""))
        yield literal, None if name is None else f"{name}{rest}"


def _is_field(name: str) -> bool:
    return name in (*_PLAIN, WINDOW) or (name.startswith(LABEL_FIELD) and name != LABEL_FIELD and name == name.strip())


def _near(name: str) -> str:
    """Return the field that a name is likely to mean."""
    if name.lower().startswith("label"):
        return f"{LABEL_FIELD}account"
    return nearest_name(name.lower(), (*_PLAIN, WINDOW)) or WINDOW


def _first_good(*attempts: str) -> str:
    """Return the first text that is a template, or the usual one."""
    for attempt in attempts:
        try:
            names = [name for _, name in _parts(attempt) if name is not None]
        except ValueError:
            continue
        if names and all(map(_is_field, names)):
            return attempt
    return _USUAL


def _value(name: str, labels: Sequence[str]) -> str:
    """Return the value of the label `name:value` or `name=value`."""
    found = _found(name, labels)
    if len(found) == 1 and found[0]:
        return found[0]
    problem = f"the task has {'several labels' if len(found) > 1 else 'no label'} '{name}:...' for {{label.{name}}}"
    accepted = f"one label '{name}:<value>'"
    raise InvalidArgument(_ARGUMENT, problem, accepted=accepted, example=f"labels={[f'{name}:acme']!r}")


def _found(name: str, labels: Sequence[str]) -> list[str]:
    beginnings = (f"{name}:", f"{name}=")
    return list(dict.fromkeys(label[len(name) + 1 :].strip() for label in labels if label.startswith(beginnings)))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _wrong(problem: str, example: str, *, accepted: str = _ACCEPTED) -> InvalidArgument:
    return InvalidArgument(_ARGUMENT, problem, accepted=accepted, example=f"{_ARGUMENT}={example!r}")
