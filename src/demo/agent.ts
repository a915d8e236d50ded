/**
 * The demo's agent: the usual loop of an agent, written with the provider's official SDK. It knows only the gateway's
 * address; two headers label its calls as one run. Main thread of the demo.
 */
import Anthropic from '@anthropic-ai/sdk';
import { TOOLS, type Workspace } from './workspace.ts';

const SYSTEM =
  'You mend small JavaScript projects. Use the tools; change as little as possible; say at the end what was wrong.';

/** Maximum number of turns, after which an agent that does not stop is ended. */
const MAX_TURNS = 20;

/** Inputs of the agent. */
interface AgentOptions {
  /** Address for requests: the gateway. */
  base_url: string;
  /** Sent as `x-svc-run` with every call. */
  run_id: string;
  task: string;
  workspace: Workspace;
  /** Called with one line about every step. */
  report: (line: string) => void;
}

/** The first line of a text, cut to the width of a terminal. */
function brief(text: string): string {
  const line = text.split('\n')[0] ?? '';
  return line.length > 90 ? `${line.slice(0, 89)}…` : line;
}

/**
 * Works on the task until the model ends.
 * @throws the SDK's error if a call fails permanently; Error if the model does not end
 */
export async function runAgent(options: AgentOptions): Promise<void> {
  const client = new Anthropic({
    baseURL: options.base_url,
    apiKey: 'demo-key',
    authToken: null,
    maxRetries: 2,
  });
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: options.task }];
  for (let turn = 1; turn <= MAX_TURNS; turn += 1) {
    const headers = { 'x-svc-run': options.run_id, 'x-svc-seq': String(turn) };
    const params = { model: 'claude-demo-large', max_tokens: 1024, system: SYSTEM, tools: TOOLS, messages };
    // The answer to the last request is for a person, so it is streamed, as for a chat window.
    const isForReader = messages.filter(hasToolResult).length >= 5;
    const message = isForReader
      ? await client.messages.stream(params, { headers }).finalMessage()
      : await client.messages.create(params, { headers });
    const text = message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
    options.report(`${turn}. ${isForReader ? '(streamed) ' : ''}${text}`);
    const calls = message.content.filter((block) => block.type === 'tool_use');
    if (calls.length === 0) return;
    const results: Anthropic.ToolResultBlockParam[] = [];
    for (const call of calls) {
      const outcome = await options.workspace.runTool(call.name, call.input as Record<string, unknown>);
      options.report(`   ${call.name}: ${outcome.is_error ? 'failed: ' : ''}${brief(outcome.text)}`);
      results.push({
        type: 'tool_result',
        tool_use_id: call.id,
        content: outcome.text,
        is_error: outcome.is_error,
      });
    }
    messages.push({ role: 'assistant', content: message.content }, { role: 'user', content: results });
  }
  throw new Error(`the agent did not come to an end in ${MAX_TURNS} turns`);
}

function hasToolResult(message: Anthropic.MessageParam): boolean {
  return Array.isArray(message.content) && message.content.some((block) => block.type === 'tool_result');
}
