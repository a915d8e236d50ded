from langchain.agents import create_agent
from langchain_core.tools import tool

from understudy_gateway import Understudy
from understudy_gateway.langchain import UnderstudyHandler, understudy_middleware


@tool
def search(query: str) -> str:
    """Searches."""
    return f"Nothing about {query}."


agent = create_agent("openai:gpt-demo-large", [search], middleware=[understudy_middleware()])
with Understudy() as u, u.run(task="Find Ada"):
    asked = {"messages": [{"role": "user", "content": "Where is Ada?"}]}
    print(agent.invoke(asked, {"callbacks": [UnderstudyHandler()]})["messages"][-1].content)
