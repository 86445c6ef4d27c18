"""The tools as the MCP SDK wants them: strict, answering every mistake with a sentence, never failing the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duetime.scheduler.errors import DuetimeError, IllegalMove, InvalidArgument, InvalidArguments
from duetime.scheduler.service import Scheduler
from duetime.scheduler.task import LOCAL, Json, Principal
from duetime.tools.arguments import Arguments
from duetime.tools.calls import Call, also_wrong
from duetime.tools.definitions import REMINDER, Actions, Definition, definitions
from duetime.tools.output_schema import output_schema
from duetime.tools.results import apology, refusal
from duetime.tools.threads import cross
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.types import CallToolResult
from pydantic import PrivateAttr

Caller = Callable[[], Principal]
"""Says who makes the call that is being served."""


class StrictTool(Tool):
    """A tool that reads its arguments by its own table; the SDK's models would drop what they do not know."""

    _definition: Definition = PrivateAttr()
    _arguments: Arguments = PrivateAttr()
    _scheduler: Scheduler = PrivateAttr()
    _caller: Caller = PrivateAttr()

    @classmethod
    def of(cls, definition: Definition, scheduler: Scheduler, caller: Caller) -> StrictTool:
        """Make the tool that calls `scheduler` in the name of whoever `caller` says."""
        arguments = definition.read()
        tool = cls(
            fn=definition.call,
            name=definition.name,
            title=definition.title,
            description=definition.about,
            parameters=arguments.schema(),
            fn_metadata=FuncMetadata(arg_model=ArgModelBase, output_schema=output_schema(definition.output)),
            is_async=False,
            annotations=definition.hints,
            meta=_meta(definition),
        )
        tool._definition, tool._arguments = definition, arguments
        tool._scheduler, tool._caller = scheduler, caller
        return tool

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> CallToolResult:  # noqa: ARG002 - the SDK's signature
        """Answer one call. Every failure is an answer that the model can act on; none is raised."""
        try:
            return await cross(self._answer, arguments, self._caller())
        except IllegalMove as defect:
            return apology(self.name, defect)
        except DuetimeError as error:
            return refusal(error)
        except Exception as defect:  # noqa: BLE001 - a defect must cost one call, not the server
            return apology(self.name, defect)

    def _answer(self, given: Mapping[str, Json], by: Principal) -> CallToolResult:
        values, problems = self._arguments.read(given)
        call = Call(self._scheduler, by, values, given)
        if problems:
            raise _all_of([*problems, *(also_wrong(call, problems) if self._definition.complete else ())])
        return self._definition.call(call)


def make_tools(scheduler: Scheduler, *, caller: Caller = lambda: LOCAL, actions: Actions = REMINDER) -> list[Tool]:
    """Return all tools, in their fixed order. `actions` and pools are named to models, the scheduler decides."""
    return [StrictTool.of(definition, scheduler, caller) for definition in definitions(actions, scheduler.pools)]


def _all_of(problems: Sequence[InvalidArgument]) -> DuetimeError:
    return problems[0] if len(problems) == 1 else InvalidArguments(problems)


def _meta(definition: Definition) -> dict[str, Any]:
    visibility = ["model", "app"] if definition.for_models else ["app"]
    return {
        "ui": {"resourceUri": definition.card, "visibility": visibility},
        "openai/outputTemplate": definition.card,
    }
