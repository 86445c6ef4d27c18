"""An approval: the question whether a run may continue, and the answer that a user, or its deadline, gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Self

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.remedies import MIN_MEMBER_SIMILARITY_RATIO, nearest_name
from duetime.scheduler.task import ApprovalAnswer, Delivery, InboxMessage, Json, Run, State, Task
from duetime.scheduler.views import UNDO_OF_ANSWER

MAX_QUESTION_CHARS: Final = 200
USUAL_QUESTION: Final = "Approve this run?"
USUAL_LENGTH: Final = "2 hours"

_TOKEN_CHARS: Final = 16
_TOKEN: Final = re.compile(rf"{UNDO_OF_ANSWER}[0-9a-f]{{{_TOKEN_CHARS}}}")

_WORDS_OF_ANSWERS: Final = {
    **dict.fromkeys(
        ("yes", "true", "ok", "okay", "accept", "approved", "allow", "run", "proceed"), ApprovalAnswer.APPROVE
    ),
    **dict.fromkeys(("no", "false", "deny", "decline", "rejected", "refuse", "skip", "cancel"), ApprovalAnswer.REJECT),
}
"""Words by which callers mean an answer."""

_WHETHER: Final = {"yes": True, "required": True, "no": False, "none": False}
"""Words that stand in place of a question: the usual one, or none."""

_MEANT_MEMBERS: Final = {
    **dict.fromkeys(("message", "text", "title", "prompt", "ask"), "question"),
    **dict.fromkeys(("deadline", "until", "timeout", "expires", "within", "before"), "by"),
    **dict.fromkeys(("on_timeout", "otherwise", "else", "fallback", "default_answer"), "default"),
}
"""Names by which callers mean a member of an approval."""

_MEMBERS: Final = ("question", "by", "default")

ANSWER_KINDS: Final[Mapping[ApprovalAnswer, EventKind]] = {
    ApprovalAnswer.APPROVE: EventKind.APPROVED,
    ApprovalAnswer.REJECT: EventKind.REJECTED,
}
"""The event of each answer."""


def meant_answer(word: Any) -> ApprovalAnswer:
    """Return the answer that a word most likely means, or the default one where none is close."""
    said = str(word)[:40].strip().lower()
    return ApprovalAnswer(said) if said in set(ApprovalAnswer) else _WORDS_OF_ANSWERS.get(said, ApprovalAnswer.REJECT)


def asks_usual(question: str) -> bool | None:
    """Return whether a word asks the usual question, or none; None for a question of its own."""
    return _WHETHER.get(question.strip().lower())


def meant_member(name: str) -> str | None:
    """Return the member that was most likely meant by a name, None when nothing is near."""
    plain = str(name)[:40].strip().lower()
    return _MEANT_MEMBERS.get(plain) or nearest_name(plain, _MEMBERS, min_ratio=MIN_MEMBER_SIMILARITY_RATIO)


def meant_members(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return members under the names that were most likely meant; one that has its right name keeps its place."""
    renamed = {meant_member(name) or name: value for name, value in given.items()}
    members = {**renamed, **{name: value for name, value in given.items() if meant_member(name) in {None, name}}}
    if members.get("default") is not None:
        members["default"] = meant_answer(members["default"]).value
    if members.get("default") == ApprovalAnswer.APPROVE and not members.get("by"):
        members["by"] = USUAL_LENGTH  # a default needs a time at which it decides
    return members


@dataclass(frozen=True, slots=True)
class Approval:
    """The question whether a run may go. `default` is the answer at `ends_at`; without that it is asked until answered.

    `attempt` is the one that asked, 0 for a run that asks before its first start. It is open until `closed_at`; one
    whose run was cancelled first is closed without an answer.
    """

    run_id: str
    attempt: int
    question: str | None
    default: ApprovalAnswer
    asked_at: datetime
    ends_at: datetime | None = None
    closed_at: datetime | None = None
    answer: ApprovalAnswer | None = None
    answered_by: str | None = None
    reason: str | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


@dataclass(frozen=True, slots=True)
class UserNotice:
    """A message to the owner of a task: its row in the inbox, and its deliveries through the task's channels."""

    message: InboxMessage
    deliveries: tuple[Delivery, ...] = ()


def notice(task: Task, run: Run, text: str, state: State, at: datetime) -> UserNotice:
    """Return the message to the owner of a task that reports the end of a run, or asks a question."""
    message = InboxMessage(new_id("m"), task.tenant, task.owner, task.id, run.id, task.title, text, state, at)
    channels = (channel for channel in task.deliver_to if channel != "inbox")
    sent = (Delivery(new_id("d"), task.tenant, task.id, run.id, name, next_at=at) for name in channels)
    return UserNotice(message, tuple(sent))


def question_of(task: Task, run: Run, approval: Approval) -> UserNotice:
    """Return the message that asks the owner of a task for an approval."""
    return notice(task, run, approval.question or USUAL_QUESTION, State.WAITING, approval.asked_at)


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """The answer to what a run asked: `by` is the user, or `duetime` for the default; `reason` is None without one."""

    answer: ApprovalAnswer
    by: str = DUETIME_ACTOR
    reason: str | None = None

    @property
    def approved(self) -> bool:
        """Whether the run may go."""
        return self.answer is ApprovalAnswer.APPROVE

    def to_json(self) -> dict[str, Json]:
        """Return the answer as JSON, for the process of a handler."""
        return {"answer": self.answer.value, "by": self.by, "reason": self.reason}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(ApprovalAnswer(given["answer"]), given.get("by") or DUETIME_ACTOR, given.get("reason"))


def as_answer(approval: Approval | None) -> dict[str, Json] | None:
    """Return the stored answer of an approval; None while it is open."""
    if approval is None or approval.answer is None:
        return None
    return ReceivedAnswer(approval.answer, approval.answered_by or DUETIME_ACTOR, approval.reason).to_json()


def check_repeat(task_id: str, approval: Approval | None, answer: ApprovalAnswer) -> None:
    """Raise Refused where nothing was asked, or where the first answer was another one."""
    if approval is None:
        raise Refused(f"{task_id} is not waiting for approval.", argument="task_id", remedy=remedies.Inspect(task_id))
    if approval.is_open:
        return
    if approval.answer is None:
        raise Refused(f"{task_id} is no longer waiting for approval.", remedy=remedies.Inspect(task_id))
    if approval.answer is not answer:
        why = f" ({approval.reason})" if approval.reason else ""
        first = f"{approval.answered_by} {ANSWER_KINDS[approval.answer]} it already{why}"
        raise Refused(f"{task_id} stays as it is: {first}.", remedy=remedies.Inspect(task_id))


def taken_back_by(approval: Approval) -> str:
    """Return the token that takes an answer back: that of another answer to the same question differs."""
    answered = f"{approval.run_id} {approval.attempt} {approval.closed_at and approval.closed_at.isoformat()}"
    return f"{UNDO_OF_ANSWER}{sha256(answered.encode()).hexdigest()[:_TOKEN_CHARS]}"


def is_of_answer(token: str) -> bool:
    """Whether a token takes back an approval, which is possible until the run starts."""
    return _TOKEN.fullmatch(token) is not None


def reopened(approval: Approval, now: datetime) -> Approval:
    """Return a question whose answer is taken back; one whose time has passed is asked for as long as before."""
    if approval.ends_at is not None and approval.ends_at <= now:
        return _for_as_long(approval, now)
    return _of(approval.run_id, approval, approval.asked_at, approval.ends_at, None)


def _for_as_long(approval: Approval, now: datetime) -> Approval:
    """Return the question as one that is asked now, for as long as before."""
    ends_at = now + (approval.ends_at - approval.asked_at) if approval.ends_at else None
    return _of(approval.run_id, approval, now, ends_at, None)


def asked_again(approval: Approval, old: Run, run: Run, now: datetime) -> Approval:
    """Return the approval of the next generation of a run, which stands only where the old one was never started.

    A run that began or expired, or whose time has passed, asks for as long as before; any other one until its end.
    """
    if approval.answer is ApprovalAnswer.APPROVE and old.started_at is None:
        return _of(run.id, approval, approval.asked_at, approval.ends_at, approval)
    is_new = old.started_at is not None or old.state is State.EXPIRED or approval.ends_at is None
    return replace(_for_as_long(approval, now) if is_new else reopened(approval, now), run_id=run.id)


def _of(
    run_id: str, approval: Approval, asked_at: datetime, ends_at: datetime | None, answered: Approval | None
) -> Approval:
    return Approval(
        run_id,
        0,
        approval.question,
        approval.default,
        asked_at,
        ends_at,
        answered.closed_at if answered else None,
        answered.answer if answered else None,
        answered.answered_by if answered else None,
        answered.reason if answered else None,
    )
