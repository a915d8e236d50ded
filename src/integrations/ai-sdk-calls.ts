/**
 * Reads steps for the AI SDK 5 and 6 from the model calls that pass a language-model middleware, because the telemetry
 * of these versions has no steps. Results of tools are in the prompt of the next model call. Any thread.
 */
import { textOfParts } from '../client/observation.ts';
import { parseExact } from '../std/exact-json.ts';
import type { AgentSteps, AskedCall } from './agent-steps.ts';
import { type Integration, reading } from './watched-run.ts';

/** The parts of content that are read. The versions of the SDK differ in `usage`. */
interface Part {
  type: string;
  text?: string;
  delta?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  result?: unknown;
  isError?: boolean;
  usage?: Usage;
}

interface Usage {
  totalTokens?: number | undefined;
  inputTokens?: number | { total?: number | undefined };
  outputTokens?: number | { total?: number | undefined };
}

interface Message {
  role: string;
  content: unknown;
}

/** The result of a tool in the form of the prompt. */
interface Output {
  type: string;
  value?: unknown;
}

/**
 * Tool calls of streamed answers that wait for their results. The generation and the run stay open until the results
 * arrive.
 */
const openCalls = new WeakMap<AgentSteps, Map<string, () => void>>();

/** Maximum number of open calls of a run; with more, the oldest is forgotten. */
const OPEN_CALLS_MAX = 1_000;

/** Logs the results of tools since the model's last answer. */
export function settlePrompt(steps: AgentSteps, prompt: readonly Message[]): void {
  const last = prompt.findLastIndex(({ role }) => role === 'assistant');
  for (const { role, content } of prompt.slice(last + 1)) {
    if (role !== 'tool' || !Array.isArray(content)) continue;
    for (const { toolCallId: id = '', output } of content as { toolCallId?: string; output?: Output }[]) {
      openCalls.get(steps)?.get(id)?.();
      openCalls.get(steps)?.delete(id);
      if (!steps.awaits(id)) continue;
      const { type = '', value } = output ?? {};
      const observation = type === 'content' ? textOfParts(value) : value;
      steps.returned({ id, observation, isError: type.startsWith('error') });
    }
  }
}

/** Logs a whole answer. */
export function readAnswer(steps: AgentSteps, content: readonly Part[], usage: Usage | undefined): void {
  const textsOf = (type: string) => content.flatMap((part) => (part.type === type ? [part.text ?? ''] : []));
  const calls = content.flatMap((part): AskedCall[] =>
    part.type === 'tool-call'
      ? [{ id: part.toolCallId ?? '', name: part.toolName ?? '', input: inputOf(part.input) }]
      : [],
  );
  const [text, thinking] = [textsOf('text').join(''), textsOf('reasoning').join('\n')];
  steps.answered({ text, thinking, calls, tokens: tokensOf(usage) });
  // These are the results of tools that the provider itself has called.
  for (const { type, toolCallId: id = '', result, isError = false } of content)
    if (type === 'tool-result') steps.returned({ id, observation: result, isError });
}

/**
 * Passes on the parts of a streamed answer, and logs the answer at its `finish` part.
 * @param onEnd called when the parts have passed or the agent has left the stream; if calls of the answer wait for their
 *   results, called when the next model call contains them
 * @returns the same parts
 */
export function tapAnswer<StreamPart>(
  integration: Integration,
  steps: AgentSteps,
  stream: ReadableStream<StreamPart>,
  onEnd: () => void,
): ReadableStream<StreamPart> {
  const content: Part[] = [];
  const take = (part: Part) => {
    if (part.type === 'finish') readAnswer(steps, content, part.usage);
    else if (part.type === 'tool-call' || part.type === 'tool-result') content.push(part);
    else if (part.type === 'text-delta' || part.type === 'reasoning-delta') addDelta(content, part);
  };
  const end = () => {
    const asked = content.filter(
      ({ type, toolCallId }) => type === 'tool-call' && steps.awaits(toolCallId ?? ''),
    );
    if (asked.length === 0) return onEnd();
    for (const { toolCallId = '' } of asked) keepOpen(steps, toolCallId, onEnd);
  };
  // The types lack `cancel`, because it is newer.
  const passer = {
    transform: (part: StreamPart, controller: TransformStreamDefaultController<StreamPart>) => {
      reading(integration, () => take(part as Part));
      controller.enqueue(part);
    },
    flush: end,
    cancel: end,
  };
  return stream.pipeThrough(new TransformStream(passer));
}

function keepOpen(steps: AgentSteps, id: string, onEnd: () => void): void {
  const calls = openCalls.get(steps) ?? new Map<string, () => void>();
  if (calls.size >= OPEN_CALLS_MAX) calls.delete(calls.keys().next().value!);
  openCalls.set(steps, calls.set(id, onEnd));
}

function addDelta(content: Part[], { type, delta = '' }: Part): void {
  const kind = type.replace('-delta', '');
  const last = content.at(-1);
  if (last?.type === kind) last.text += delta;
  else content.push({ type: kind, text: delta });
}

function inputOf(input: unknown): unknown {
  try {
    return typeof input === 'string' ? parseExact(input) : input;
  } catch {
    return input;
  }
}

function tokensOf(usage: Usage | undefined): number {
  const count = (tokens: Usage['inputTokens']) => (typeof tokens === 'object' ? tokens?.total : tokens) ?? 0;
  return usage?.totalTokens ?? count(usage?.inputTokens) + count(usage?.outputTokens);
}
