"""JMESPath expressions, read when a task is scheduled and evaluated at each look; the library is loaded when used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.watch.literals import compared, with_literals
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.task import Json

MAX_EXPRESSION_CHARS: Final = 500
WATCH_EXAMPLE: Final = "status == 'shipped' || price < `90`"
_ACCEPTED: Final = "JMESPath, with texts in single quotes and numbers in backticks"
ACCEPTED_CONDITION: Final = f"{_ACCEPTED}, which is not true where nothing is there"
_COMPARISONS = frozenset({"eq", "ne", "lt", "lte", "gt", "gte"})
_WITH_SUBJECT = frozenset({"comparator", "function_expression"})


class NotEvaluated(ValueError):
    """An expression that a document does not fit, as one that asks for the length of a number."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression."""

    text: str
    _tree: Any

    @property
    def quoted(self) -> str:
        """The expression as a sentence names it; one with a literal in backticks stands alone."""
        return self.text if "`" in self.text else f"`{self.text}`"

    def value(self, document: Json) -> Json:
        """Return the part of a document that it selects, None where there is none; raises `NotEvaluated`."""
        return self._evaluated(self._tree, document)

    def subject(self, document: Json) -> Json:
        """Return what a comparison or a function looks at: `120` for `price < `100``; else the value."""
        children = self._tree["children"] if self._tree["type"] in _WITH_SUBJECT else ()
        return self._evaluated(children[0] if children else self._tree, document)

    def _evaluated(self, tree: Any, document: Json) -> Json:
        from jmespath.exceptions import JMESPathError  # noqa: PLC0415 - most processes evaluate none
        from jmespath.parser import ParsedResult  # noqa: PLC0415 - as above

        try:
            found: Json = ParsedResult(self.text, tree).search(document)
        except (JMESPathError, RecursionError, ArithmeticError, TypeError) as error:
            raise NotEvaluated(clean_text(f"{self.quoted}: {error}", 300, lines=False)) from None
        return found


def parsed(argument: str, text: str) -> Expression:
    """Parse an expression; raises `InvalidArgument` with what is wrong and an example."""
    problem = _length_problem(text)
    tree: Any = None
    if not problem:
        tree, problem = _read(text)
    if problem:
        meant = _rewritten(text) or (_compared(text) if tree is None else "")
        meant = meant if argument.endswith(".condition") else meant.partition(" ")[0]
        raise InvalidArgument(argument, problem, accepted=_ACCEPTED, example=meant or WATCH_EXAMPLE)
    return Expression(text, tree)


def _compared(text: str) -> str:
    """Return the comparison that a sentence means, empty where it means none."""
    meant = compared(text)
    return meant if meant and not _length_problem(meant) and not _read(meant)[1] else ""


def _rewritten(text: str) -> str:
    """Return an expression with the literals that were meant, empty where it is right in no such form."""
    meant = with_literals(text)
    if meant == text or _length_problem(meant):
        return ""
    tree, problem = _read(meant)
    if problem:
        return ""
    try:
        return _with_text(tree) or _where_there(meant, tree) if holds(Expression(meant, tree).value(None)) else meant
    except NotEvaluated:
        return meant


def condition(argument: str, text: str) -> Expression:
    """Parse an expression that is to become true; raises `InvalidArgument` also for one that nothing makes true.

    `status == shipped` compares two fields that are not there, and would be met by any answer.
    """
    found = parsed(argument, text)
    try:
        met = holds(found.value(None))
    except NotEvaluated:
        met = False
    if met:
        problem = f"{text[:80]!r} is already true for an empty answer (null)"
        raise InvalidArgument(argument, problem, accepted=ACCEPTED_CONDITION, example=_corrected(text, found._tree))  # noqa: SLF001 - its own
    return found


def _corrected(text: str, tree: Any) -> str:
    """Return the condition as it was probably meant: with a text on the right, or only where its field is there."""
    return _rewritten(text) or _with_text(tree) or _where_there(text, tree) or WATCH_EXAMPLE


def _with_text(tree: Any) -> str:
    """Return a comparison of two fields as that of one with a text, empty for any other."""
    sides = tree["children"] if tree["type"] == "comparator" and tree["value"] == "eq" else []
    fields = bool(sides) and all(side["type"] == "field" for side in sides)
    return f"{sides[0]['value']} == '{sides[1]['value']}'" if fields else ""


def _where_there(text: str, tree: Any) -> str:
    """Return a comparison that holds only where its field is there, empty where it is no comparison of a field."""
    name = next((node["value"] for node in _nodes(tree) if node["type"] == "field"), None)
    return f"{name} && {text}" if name and tree["type"] == "comparator" else ""


def holds(value: Json) -> bool:
    """Whether a value counts as true in JMESPath: not null, false, or empty. Zero counts."""
    return not (value is None or value is False or value in ("", [], {}))


def _length_problem(text: str) -> str:
    return (
        f"it has {len(text)} characters, the limit is {MAX_EXPRESSION_CHARS}"
        if len(text) > MAX_EXPRESSION_CHARS
        else ""
    )


def _read(text: str) -> tuple[Any, str]:
    from jmespath import compile as compiled  # noqa: PLC0415 - as above
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415 - as above

    try:
        tree: Any = compiled(text).parsed
    except JMESPathError as error:
        reason = str(error).partition(", for expression")[0].partition("\n")[0]
        return None, clean_text(f"{text[:80]!r} cannot be parsed ({reason.rstrip('.:')})", 300, lines=False)
    except RecursionError:
        return None, "it is nested too deeply"
    return tree, _unknown_function(tree) or _quoted_operand(text)


def _unknown_function(tree: Any) -> str:
    from jmespath.functions import Functions  # noqa: PLC0415 - as above

    known = Functions.FUNCTION_TABLE
    unknown = next((name for name in _functions(tree) if name not in known), None)
    return "" if unknown is None else f"there is no function {unknown[:40]}(); there are {', '.join(sorted(known))}"


def _functions(tree: Any) -> Iterator[str]:
    return (node["value"] for node in _nodes(tree) if node["type"] == "function_expression")


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a tree, the first ones first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            yield node
            pending += reversed(node["children"])


def _quoted_operand(text: str) -> str:
    """Refuse `status == "shipped"`: in JMESPath double quotes name a field, so it would never hold."""
    from jmespath.lexer import Lexer  # noqa: PLC0415 - as above

    for before, token in pairwise(Lexer().tokenize(text)):
        if before["type"] in _COMPARISONS and token["type"] == "quoted_identifier":
            return f"compares with a field named {token['value'][:40]!r}; a text stands in single quotes"
    return ""
