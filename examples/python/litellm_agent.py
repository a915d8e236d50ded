import json

import litellm

from understudy_gateway import Understudy
from understudy_gateway.litellm import UnderstudyLogger, with_intervention

parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "search", "description": "Searches.", "parameters": parameters}}]
litellm.callbacks = [UnderstudyLogger()]
with Understudy() as u, u.run(task="Find Ada"):
    messages = [{"role": "user", "content": "Where is Ada?"}]
    while True:
        answer = litellm.completion("openai/gpt-demo-large", with_intervention(messages), tools=tools).choices[0].message
        if not answer.tool_calls:
            break
        messages.append(answer)
        for call in answer.tool_calls:
            found = f"Nothing about {json.loads(call.function.arguments)['query']}."
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    print(answer.content)
