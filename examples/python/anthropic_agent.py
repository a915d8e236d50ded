from anthropic import Anthropic, beta_tool

from understudy_gateway import Understudy
from understudy_gateway.anthropic import understudy_middleware


@beta_tool
def search(query: str) -> str:
    """Searches."""
    return f"Nothing about {query}."


client = Anthropic(middleware=[understudy_middleware()])
with Understudy() as u, u.run(task="Find Ada"):
    asked = [{"role": "user", "content": "Where is Ada?"}]
    runner = client.beta.messages.tool_runner(model="claude-demo-large", max_tokens=500, tools=[search], messages=asked)
    print(runner.until_done().content[0].text)
