"""The tools as the MCP SDK wants them: strict, answering every mistake with a sentence, never failing the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from duetime.scheduler.errors import DuetimeError, IllegalMove, InvalidArgument, InvalidArguments, Refused
from duetime.scheduler.intake.corrected_example import with_accepted_examples
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.task import Json
from duetime.tools.act_on_task import ACT_ON_TASK
from duetime.tools.admin.find_runs import FIND_RUNS
from duetime.tools.arguments.arguments import SAMPLE_TASK_ID, Arguments, action_of
from duetime.tools.call_origin import UNKNOWN_ORIGIN, CallOrigin
from duetime.tools.cancel_task import CANCEL_TASK
from duetime.tools.change_tasks import CHANGE_TASKS
from duetime.tools.definition import AnyDefinition, CallObserver, SchedulerSource, Sender, unobserved
from duetime.tools.get_task import GET_TASK
from duetime.tools.list_tasks import LIST_TASKS
from duetime.tools.output_schema import output_schema
from duetime.tools.reschedule_task import RESCHEDULE_TASK
from duetime.tools.results import CODE_META_KEY, apology, refusal
from duetime.tools.schedule_task import REMINDER, Actions, schedule_task
from duetime.tools.send_event import SEND_EVENT
from duetime.tools.threads import cross
from duetime.tools.worker.claim_runs import CLAIM_RUNS
from duetime.tools.worker.report_runs import CHECKPOINT_RUN, FINISH_RUN, HEARTBEAT_RUN
from duetime.widgets.cards import Card, cards
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.types import CallToolResult
from pydantic import PrivateAttr

ADMIN_TOOLS: tuple[AnyDefinition, ...] = (FIND_RUNS,)
"""Tools of callers with an admin scope; no other caller is shown them, or may call them."""

WORKER_TOOLS: tuple[AnyDefinition, ...] = (CLAIM_RUNS, HEARTBEAT_RUN, CHECKPOINT_RUN, FINISH_RUN)
"""Tools of workers elsewhere, where the settings declare external actions; callers without their scope see none."""

Caller = Callable[[], Principal]
"""Says who makes the call that is being served."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The calls of one tool, made in the name of whoever `caller` says; each outcome goes to `observe`."""

    definition: AnyDefinition
    arguments: Arguments
    scheduler: SchedulerSource
    caller: Caller
    observe: CallObserver

    async def answer(self, given: Mapping[str, Json], origin: CallOrigin) -> CallToolResult:
        """Answer one call. Every failure is an answer that the model can act on; none is raised."""
        began = time.perf_counter()
        try:
            result = await self._answered(given, self.caller(), origin)
        except Exception as error:  # noqa: BLE001 - a defect must cost one call, not the server
            result = self.failed(error)
        return self._observed(result, began)

    def answer_here(self, given: Mapping[str, Json], origin: CallOrigin) -> CallToolResult:
        """Answer one call on this thread, as `answer` does; it waits for nothing before."""
        began = time.perf_counter()
        try:
            result = self.execute(given, self.caller(), origin)
        except Exception as error:  # noqa: BLE001 - as above
            result = self.failed(error)
        return self._observed(result, began)

    def failed(self, error: BaseException) -> CallToolResult:
        """Answer with what went wrong: an error of the call, or a defect of ours."""
        if isinstance(error, DuetimeError) and not isinstance(error, IllegalMove):
            return refusal(error)
        return apology(self.definition.name, error)

    def _observed(self, result: CallToolResult, began: float) -> CallToolResult:
        outcome = (result.meta or {}).get(CODE_META_KEY, "ok")
        self.observe(self.definition.name, outcome, time.perf_counter() - began)
        return result

    async def _answered(self, given: Mapping[str, Json], by: Principal, origin: CallOrigin) -> CallToolResult:
        before_answer = self.definition.before_answer
        if before_answer is None:
            return await cross(self.execute, given, by, origin)
        call, sender = await cross(self._read, given, by, origin)
        await before_answer(call, sender)
        return await cross(self.definition.answer, call, sender)

    def execute(self, given: Mapping[str, Json], by: Principal, origin: CallOrigin = UNKNOWN_ORIGIN) -> CallToolResult:
        """Carry out one call on this thread; raises what is wrong with it."""
        try:
            return self.definition.answer(*self._read(given, by, origin))
        except (InvalidArgument, InvalidArguments) as wrong:
            rehearse = self.definition.rehearse
            if rehearse is None or SAMPLE_TASK_ID in str(wrong):
                raise
            raise with_accepted_examples(wrong, given, lambda tried: rehearse(*self._read(tried, by, origin))) from None

    def _read(self, given: Mapping[str, Json], by: Principal, origin: CallOrigin) -> tuple[Any, Sender]:
        if not by.may(self.definition.scope):
            raise Refused(f"{self.definition.name} needs a token with the scope {self.definition.scope}.")
        sender = Sender(self.scheduler(), by, given, origin)
        values, problems = self.arguments.read(given, partial(action_of, sender.scheduler, given.get("task_id"), by))
        if problems:
            raise _all_of([*problems, *self._also_wrong(values, problems, sender)])
        return self.definition.call(**values), sender

    def _also_wrong(
        self, values: Mapping[str, Json], problems: Sequence[InvalidArgument], sender: Sender
    ) -> list[InvalidArgument]:
        reported = {each for problem in problems for each in (problem.argument, problem.example.partition("=")[0])}
        found = self.definition.also_wrong(values, sender)
        return [problem for problem in found if problem.argument.partition(".")[0] not in reported]


class StrictTool(Tool):
    """A tool that reads its arguments by its own table; the SDK's models would drop what they do not know."""

    _calls: ToolCalls = PrivateAttr()
    """The only private attribute: pydantic takes a microsecond and more to look one up."""

    @classmethod
    def of(
        cls, definition: AnyDefinition, scheduler: SchedulerSource, caller: Caller, observe: CallObserver = unobserved
    ) -> StrictTool:
        """Make the tool that calls the scheduler in the name of whoever `caller` says."""
        arguments = definition.read()
        tool = cls(
            fn=definition.answer,
            name=definition.name,
            title=definition.title,
            description=definition.about,
            parameters=arguments.schema(),
            fn_metadata=FuncMetadata(
                arg_model=ArgModelBase,
                output_schema=output_schema(definition.output) if definition.describes_output else None,
            ),
            is_async=False,
            annotations=definition.hints,
            meta=_meta(definition),
        )
        tool._calls = ToolCalls(definition, arguments, scheduler, caller, observe)
        return tool

    @property
    def calls(self) -> ToolCalls:
        """Its calls, as a way past the models of the SDK answers them."""
        return self._calls

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> CallToolResult:  # noqa: ARG002 - the SDK's signature
        """Answer one call, as `ToolCalls.answer` does."""
        return await self._calls.answer(arguments, CallOrigin.of_context(context))


def definitions(actions: Actions, pools: Sequence[str] = ()) -> tuple[AnyDefinition, ...]:
    """Return the tools in their fixed order; `actions` are the names that `action` may take, with their payloads.

    `pools` are named to models, where `needs` may be given.
    """
    return (
        schedule_task(actions, pools),
        LIST_TASKS,
        GET_TASK,
        RESCHEDULE_TASK,
        CANCEL_TASK,
        CHANGE_TASKS,
        SEND_EVENT,
        ACT_ON_TASK,
    )


def make_tools(
    scheduler: SchedulerSource,
    *,
    caller: Caller = lambda: LOCAL,
    actions: Actions = REMINDER,
    pools: Sequence[str] = (),
    served: Sequence[Card] | None = None,
    observe: CallObserver = unobserved,
) -> list[Tool]:
    """Return all tools, in their fixed order. `actions` and `pools` are named to models, the scheduler decides.

    `served` are the cards that the server has as resources. A tool of another card would show nothing: refused.
    """
    known = {card.uri for card in (cards() if served is None else served)}
    found = definitions(actions, pools)
    if missing := [tool.name for tool in found if tool.card is not None and tool.card not in known]:
        raise ValueError(f"no resource has the cards of {', '.join(missing)}")
    return [StrictTool.of(definition, scheduler, caller, observe) for definition in found]


def admin_tools(scheduler: SchedulerSource, caller: Caller, observe: CallObserver) -> list[Tool]:
    """Return the tools of administrators, for a server whose callers prove who they are."""
    return [StrictTool.of(definition, scheduler, caller, observe) for definition in ADMIN_TOOLS]


def worker_tools(scheduler: SchedulerSource, caller: Caller, observe: CallObserver) -> list[Tool]:
    """Return the tools of workers elsewhere, for a server that has actions for them."""
    return [StrictTool.of(definition, scheduler, caller, observe) for definition in WORKER_TOOLS]


def _all_of(problems: Sequence[InvalidArgument]) -> DuetimeError:
    return problems[0] if len(problems) == 1 else InvalidArguments(problems)


def _meta(definition: AnyDefinition) -> dict[str, Any]:
    if definition.card is None:
        return {}
    visibility = ["model", "app"] if definition.for_models else ["app"]
    return {
        "ui": {"resourceUri": definition.card, "visibility": visibility},
        "openai/outputTemplate": definition.card,
    }
