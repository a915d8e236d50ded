from agents import Agent, Runner, function_tool

from understudy_gateway import Understudy
from understudy_gateway.openai_agents import UnderstudyHooks, understudy_run_config


@function_tool
def search(query: str) -> str:
    """Searches."""
    return f"Nothing about {query}."


agent = Agent(name="Finder", model="gpt-demo-large", tools=[search])
with Understudy() as u, u.run(task="Find Ada"):
    watched = {"hooks": UnderstudyHooks(), "run_config": understudy_run_config()}
    print(Runner.run_sync(agent, "Where is Ada?", **watched).final_output)
