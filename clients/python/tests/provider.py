"""A scripted model provider on a real socket: Anthropic messages, OpenAI chat completions and responses, with or without streaming."""

import json
import threading

from support import Service

INPUT_TOKENS, OUTPUT_TOKENS = 100, 20


class Provider(Service):
    """A provider whose answers come from `script(turn)`: `{"text": …, "calls": [(name, input), …]}`, or `{"status": 500}`.

    `turn` has `system`, `asked` (the text of the first user message), `results` (of tools, in order), `number` (from 1) and
    `all` (the request's body). With `{"cut": True}` in an answer, its stream breaks off in the middle.
    """

    def __init__(self, script):
        self.script = script
        self.turns = []
        self._counting = threading.Lock()
        super().__init__(self.answer_turn)

    def answer_turn(self, request):
        wire = _WIRES.get(request.path.rpartition("/v1/")[2].partition("?")[0])
        if wire is None or request.body is None:
            return 404, {"error": {"type": "not_found_error", "message": "not scripted"}}, {}
        turn = wire.read(request.body)
        with self._counting:
            self.turns.append(turn)
            turn["number"] = len(self.turns)
        said = {"text": "", "calls": [], **self.script({**turn, "all": json.dumps(request.body)})}
        if said.get("status", 200) != 200:
            return said["status"], {"error": {"type": "api_error", "message": "scripted"}}, {"content-type": "application/json"}
        said["calls"] = [(f"call_{turn['number']}_{index}", *call) for index, call in enumerate(said["calls"])]
        if not request.body.get("stream"):
            return 200, wire.whole(said, turn["number"]), {"content-type": "application/json"}
        events = wire.stream(said, turn["number"])
        if said.get("cut"):
            events = events[: len(events) // 2]
        return 200, "".join(events).encode(), {"content-type": "text/event-stream"}


def _event(data, name=None):
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def _text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


class _Messages:
    """Anthropic."""

    @staticmethod
    def read(body):
        blocks = [
            block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
        ]
        return {
            "system": _text_of(body.get("system", "")),
            "asked": _text_of(body["messages"][0]["content"]),
            "results": [_text_of(block.get("content")) for block in blocks if block["type"] == "tool_result"],
        }

    @staticmethod
    def _content(said):
        texts = [{"type": "text", "text": said["text"]}] if said["text"] else []
        return texts + [
            {"type": "tool_use", "id": call_id, "name": name, "input": given} for call_id, name, given in said["calls"]
        ]

    @classmethod
    def whole(cls, said, number):
        return {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
            "stop_reason": "tool_use" if said["calls"] else "end_turn", "content": cls._content(said),
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }

    @classmethod
    def stream(cls, said, number):
        whole = cls.whole(said, number)
        start = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1}}
        events = [{"type": "message_start", "message": start}]
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                empty, deltas = {"type": "text", "text": ""}, [
                    {"type": "text_delta", "text": part} for part in (block["text"][:3], block["text"][3:])
                ]
            else:
                written = json.dumps(block["input"])
                empty, deltas = {**block, "input": {}}, [
                    {"type": "input_json_delta", "partial_json": part} for part in (written[:5], written[5:])
                ]
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        events.append({
            "type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": OUTPUT_TOKENS},
        })
        events.append({"type": "message_stop"})
        return [_event(event, event["type"]) for event in events]


class _Completions:
    """OpenAI, chat completions."""

    @staticmethod
    def read(body):
        of_role = {}
        for message in body["messages"]:
            of_role.setdefault(message["role"], []).append(_text_of(message.get("content")))
        system = of_role.get("system", []) + of_role.get("developer", [])
        return {"system": "\n".join(system), "asked": of_role.get("user", [""])[0], "results": of_role.get("tool", [])}

    @staticmethod
    def _calls(said):
        return [
            {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for index, (call_id, name, given) in enumerate(said["calls"])
        ]

    USAGE = {
        "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }

    @classmethod
    def whole(cls, said, number):
        message = {"role": "assistant", "content": said["text"] or None}
        if said["calls"]:
            message["tool_calls"] = cls._calls(said)
        reason = "tool_calls" if said["calls"] else "stop"
        return {
            "id": f"c{number}", "object": "chat.completion", "created": 1, "model": "m", "usage": cls.USAGE,
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        }

    @classmethod
    def stream(cls, said, number):
        def chunk(delta, reason=None):
            choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
            return {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}

        chunks = [chunk({"role": "assistant", "content": ""})]
        chunks += [chunk({"content": part}) for part in (said["text"][:3], said["text"][3:]) if part]
        chunks += [chunk({"tool_calls": [call]}) for call in cls._calls(said)]
        chunks.append(chunk({}, "tool_calls" if said["calls"] else "stop"))
        chunks.append({**chunk({}), "choices": [], "usage": cls.USAGE})
        return [*map(_event, chunks), _event("[DONE]")]


class _Responses:
    """OpenAI, responses."""

    @staticmethod
    def read(body):
        items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        users = [_text_of(item.get("content")) for item in items if item.get("role") == "user"]
        results = [_text_of(item["output"]) for item in items if item.get("type") == "function_call_output"]
        return {"system": body.get("instructions") or "", "asked": (users or [""])[0], "results": results}

    @staticmethod
    def whole(said, number):
        output = []
        if said["text"]:
            content = [{"type": "output_text", "text": said["text"], "annotations": [], "logprobs": []}]
            output.append({
                "id": f"m{number}", "type": "message", "role": "assistant", "status": "completed", "content": content,
            })
        output += [
            {
                "id": f"f_{call_id}", "type": "function_call", "call_id": call_id, "name": name, "status": "completed",
                "arguments": given if isinstance(given, str) else json.dumps(given),
            }
            for call_id, name, given in said["calls"]
        ]
        return {
            "id": f"r{number}", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": output,
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
            "temperature": 1, "tool_choice": "auto", "tools": [], "top_p": 1,
            "usage": {
                "input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }

    @classmethod
    def stream(cls, said, number):
        whole = cls.whole(said, number)
        events = [("response.created", {"response": {**whole, "status": "in_progress", "output": [], "usage": None}})]
        for index, item in enumerate(whole["output"]):
            empty = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
            events.append(("response.output_item.added", {"output_index": index, "item": empty}))
            if item["type"] == "message":
                at = {"item_id": item["id"], "output_index": index, "content_index": 0}
                part = item["content"][0]
                events.append(("response.content_part.added", {**at, "part": {**part, "text": ""}}))
                events.append(("response.output_text.delta", {**at, "delta": part["text"], "logprobs": []}))
                events.append(("response.output_text.done", {**at, "text": part["text"], "logprobs": []}))
                events.append(("response.content_part.done", {**at, "part": part}))
            events.append(("response.output_item.done", {"output_index": index, "item": item}))
        events.append(("response.completed", {"response": whole}))
        return [
            _event({"type": name, "sequence_number": number, **data}, name) for number, (name, data) in enumerate(events)
        ]


_WIRES = {"messages": _Messages, "chat/completions": _Completions, "responses": _Responses}
__all__ = ["INPUT_TOKENS", "OUTPUT_TOKENS", "Provider"]
