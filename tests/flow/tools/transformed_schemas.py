"""Tool schemas as agent frameworks hand them to models: reads tools from stdin, writes schemas by adapter to stdout.

A process of its own: the frameworks start threads and warn of much when they are imported, which concerns no test.
"""

from __future__ import annotations

import copy
import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

Schema = dict[str, Any]
Adapter = Callable[[Schema], Schema]


def pydantic_ai(module: str, name: str, *, strict: bool) -> Adapter:
    transformer = getattr(import_module(f"pydantic_ai.{module}"), name)
    return lambda tool: transformer(copy.deepcopy(tool["inputSchema"]), strict=strict or None).walk()


def openai_agents() -> Adapter:
    mcp, server = import_module("agents.mcp"), import_module("agents.mcp.server")
    tool_type = import_module("mcp.types").Tool
    unconnected = server.MCPServerStdio(params={"command": "duetime"})

    def adapt(tool: Schema) -> Schema:
        made = mcp.MCPUtil.to_function_tool(tool_type.model_validate(tool), unconnected, convert_schemas_to_strict=True)
        return dict(made.params_json_schema)

    return adapt


def langchain(*, strict: bool) -> Adapter:
    convert = import_module("langchain_core.utils.function_calling").convert_to_openai_tool

    def adapt(tool: Schema) -> Schema:
        function = {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
        return dict(convert(copy.deepcopy(function), strict=strict)["function"]["parameters"])

    return adapt


def adapters() -> dict[str, Adapter]:
    openai, anthropic, gemini = (
        ("profiles.openai", "OpenAIJsonSchemaTransformer"),
        ("providers.anthropic", "AnthropicJsonSchemaTransformer"),
        ("profiles.google", "GoogleJsonSchemaTransformer"),
    )
    return {
        "pydantic-ai for OpenAI": pydantic_ai(*openai, strict=False),
        "pydantic-ai for OpenAI, strict": pydantic_ai(*openai, strict=True),
        "pydantic-ai for Anthropic": pydantic_ai(*anthropic, strict=False),
        "pydantic-ai for Anthropic, strict": pydantic_ai(*anthropic, strict=True),
        "pydantic-ai for Gemini": pydantic_ai(*gemini, strict=False),
        "pydantic-ai for Gemini live": pydantic_ai("profiles.google", "GoogleOpenAPISchemaTransformer", strict=False),
        "openai-agents, strict": openai_agents(),
        "langchain": langchain(strict=False),
        "langchain, strict": langchain(strict=True),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    tools = json.load(sys.stdin)
    found = {name: {tool["name"]: adapt(tool) for tool in tools} for name, adapt in adapters().items()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
