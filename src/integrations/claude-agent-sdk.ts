/**
 * `@understudy-gateway/claude-agent-sdk`: the Claude Agent SDK (`@anthropic-ai/claude-agent-sdk`).
 * Hooks log the steps, and their return values contain interventions. Hooks do not wait for the
 * network. Any thread.
 *
 * The package contains a client of more than 100 MB, so this project does not depend on it. The needed parts of its
 * types are repeated here with the same names.
 */

import { textOfParts } from '../client/observation.ts';
import { currentRun } from '../client/understudy.ts';
import { requirePeer } from './peer-version.ts';
import { type Integration, stepsAround, type WatchOptions, watch } from './watched-run.ts';

const INTEGRATION: Integration = {
  name: '@understudy-gateway/claude-agent-sdk',
  framework: 'claude-agent-sdk',
};
requirePeer(INTEGRATION, '@anthropic-ai/claude-agent-sdk', '>=0.2.63 <1');

type ToolEvent = 'PostToolUse' | 'PostToolUseFailure';
type StopEvent = 'Stop' | 'SubagentStop';

/** The parts of a hook's input that are read. */
interface HookInput {
  hook_event_name: string;
  tool_name?: string;
  tool_input?: unknown;
  tool_response?: unknown;
  tool_use_id?: string;
  error?: string;
  last_assistant_message?: string;
}

interface ToolHookOutput {
  hookSpecificOutput?: { hookEventName: ToolEvent; additionalContext: string };
}

type Hook<Output> = (input: HookInput) => Promise<Output>;

/** Hooks in the form of `query`; you can add your own to the lists. */
export type UnderstudyHooks = Record<ToolEvent, { hooks: Hook<ToolHookOutput>[] }[]> &
  Record<StopEvent, { hooks: Hook<Record<string, never>>[] }[]>;

/**
 * For `query({ prompt, options: { hooks: understudyHooks() } })`. Each tool call is a step, and so is the last message
 * of an agent or sub-agent. An intervention reaches the agent with a tool's result, and never keeps an agent from
 * stopping.
 */
export function understudyHooks(options: WatchOptions = {}): UnderstudyHooks {
  // The run is determined here, because the SDK calls hooks outside of the run's scope.
  const run = options.run ?? currentRun();
  const watched = run === null ? {} : { run };
  stepsAround(INTEGRATION, watched);
  const onTool = { hooks: [async (input: HookInput) => takeTool(watched, input)] };
  const onStop = { hooks: [async (input: HookInput) => takeStop(watched, input)] };
  return { PostToolUse: [onTool], PostToolUseFailure: [onTool], Stop: [onStop], SubagentStop: [onStop] };
}

function takeTool(options: WatchOptions, input: HookInput): ToolHookOutput {
  const hookEventName = input.hook_event_name === 'PostToolUse' ? 'PostToolUse' : 'PostToolUseFailure';
  const isFailure = hookEventName === 'PostToolUseFailure';
  watch(INTEGRATION, options, (steps) =>
    steps.returned({
      id: input.tool_use_id ?? '',
      name: input.tool_name ?? '',
      input: input.tool_input,
      observation: isFailure ? input.error : readResponse(input.tool_response),
      isError: isFailure || saysFailure(input.tool_response),
    }),
  );
  const said = stepsAround(INTEGRATION, options)?.takeIntervention() ?? null;
  return said === null ? {} : { hookSpecificOutput: { hookEventName, additionalContext: said.text } };
}

function takeStop(options: WatchOptions, { last_assistant_message: text = '' }: HookInput) {
  watch(INTEGRATION, options, (steps) => steps.answered({ text, thinking: '', calls: [], tokens: 0 }));
  return {};
}

/**
 * Reads what a tool returned: the output of a shell as a person would have seen it, the texts of the parts for a tool
 * of an MCP server, and the whole response for any other tool.
 */
function readResponse(response: unknown): unknown {
  if (Array.isArray(response)) return textOfParts(response);
  const { stdout, stderr } = (response ?? {}) as { stdout?: unknown; stderr?: unknown };
  if (typeof stdout !== 'string' || typeof stderr !== 'string') return response;
  return [stdout, stderr].filter(Boolean).join('\n');
}

/** Whether the tool of an MCP server reported a failure. */
function saysFailure(response: unknown): boolean {
  const { isError, is_error } = (response ?? {}) as { isError?: unknown; is_error?: unknown };
  return isError === true || is_error === true;
}
