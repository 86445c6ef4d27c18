"""The groups of verbs of the inbox and of quiet hours; a verb is loaded when it is used."""

from __future__ import annotations

from duetime.server.cli.help import DeferredVerb, VerbsOf

_INBOX, _QUIET = "duetime.server.cli.inbox", "duetime.server.cli.notices.quiet_hours"

INBOX_VERBS = VerbsOf(
    name="inbox",
    help="The inbox of outcomes. Without a command, it lists the unread ones.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "list",
            f"{_INBOX}:list_",
            "List the outcomes that are unread, newest first; reading a list marks none of them.",
            examples=("duetime inbox list", "duetime inbox list --csv"),
        ),
        DeferredVerb(
            "read",
            f"{_INBOX}:read",
            "Show outcomes whole and mark them as read: those that are named, or the newest.",
            examples=("duetime inbox read", "duetime inbox read 'nightly report'"),
        ),
        DeferredVerb(
            "done",
            f"{_INBOX}:done",
            "Mark outcomes as done without showing them: those that are named, or all.",
            examples=("duetime inbox done --all", "duetime inbox done t_7k3m9qx2w4hb"),
        ),
    ),
)

QUIET_HOURS = VerbsOf(
    name="quiet-hours",
    help="Your quiet hours, during which notifications that can wait are held.",
    rich_markup_mode=None,
    commands=(
        DeferredVerb(
            "show",
            f"{_QUIET}:show",
            "Show the quiet hours in force, and whether they are the user's own.",
            examples=("duetime quiet-hours show",),
        ),
        DeferredVerb(
            "set",
            f"{_QUIET}:set_",
            "Set quiet hours that go before those of the settings; `none` for no quiet ones.",
            examples=("duetime quiet-hours set '22:00-07:00 America/Denver'", "duetime quiet-hours set none"),
        ),
        DeferredVerb(
            "clear",
            f"{_QUIET}:clear",
            "Forget the quiet hours that were set, so that those of the settings count again.",
            examples=("duetime quiet-hours clear",),
        ),
    ),
)
