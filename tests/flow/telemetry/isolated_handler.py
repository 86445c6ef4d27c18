"""A handler that runs in a process of its own."""

from __future__ import annotations

from duetime import Context, Done, handler


@handler("tell_trace", isolation="process")
def tell_trace(ctx: Context) -> Done:
    """Say which trace it belongs to."""
    return Done(result={"traceparent": ctx.traceparent, "tracestate": ctx.tracestate})
