"""Prints the cost of the tools to a model: of the definitions, and of the answers of each kind on `docs/requests.md`.

At four characters a token. Hosts show a model the text of an answer, and few its structured content as well.

    python benchmarks/bench_tokens.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from duetime.scheduler.handlers import Handlers
from duetime.tools.registration import definitions
from duetime.tools.schedule_task import actions_of

from tests.flow.requests.costs import most_by_kind, read_page, tokens


def main() -> int:
    tools = definitions(actions_of(Handlers.load(entry_points=False)))
    read = [{"name": tool.name, "description": tool.about, "inputSchema": tool.read().schema()} for tool in tools]
    print(f"definitions of {len(tools)} tools: {tokens(read):,.0f} tokens")
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(read_page(Path(folder))).costs
    print(f"{'longest answer about':22} {'text':>6} {'structure':>10}")
    for kind, (text, structure) in most_by_kind(found).items():
        print(f"{kind:22} {text:6.0f} {structure:10.0f}")
    print(f"{'mean of all ' + str(len(found)):22} {sum(each.text for each in found) / len(found):6.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
