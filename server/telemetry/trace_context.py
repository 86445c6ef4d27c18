"""W3C Trace Context of incoming HTTP requests: what a request causes belongs to the trace of its caller."""

from __future__ import annotations

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Receive, Scope, Send

_W3C = TraceContextTextMapPropagator()
_HEADERS = (b"traceparent", b"tracestate")


class TraceContext:
    """Middleware: the context of the headers is current for the request. The SDK's own, of `_meta`, goes before it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _HEADERS}
        token = context.attach(_W3C.extract(found))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)
