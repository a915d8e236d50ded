import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

from understudy_gateway import AsyncUnderstudy
from understudy_gateway.claude_agent_sdk import understudy_hooks, watch


@tool("search", "Searches.", {"query": str})
async def search(asked: dict) -> dict:
    return {"content": [{"type": "text", "text": f"Nothing about {asked['query']}."}]}


async def main() -> None:
    tools = {"mcp_servers": {"finder": create_sdk_mcp_server("finder", tools=[search])}, "tools": []}
    async with AsyncUnderstudy() as u, u.run(task="Find Ada"):
        options = ClaudeAgentOptions(**tools, allowed_tools=["mcp__finder__search"], hooks=understudy_hooks())
        async for message in watch(query(prompt="Where is Ada?", options=options)):
            if isinstance(message, ResultMessage):
                print(message.result)


asyncio.run(main())
