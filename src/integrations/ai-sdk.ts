/**
 * `@understudy-gateway/ai-sdk`: the AI SDK (`ai`), from 5 on. A language-model middleware adds interventions to the
 * next model call. A telemetry integration logs the steps; with `ai` 5 and 6, the middleware logs them. Neither waits
 * for the network. Any thread.
 */
import type { LanguageModelMiddleware, Telemetry } from 'ai';
import * as ai from 'ai';
import { textOfError } from '../client/observation.ts';
import type { AgentSteps } from './agent-steps.ts';
import { readAnswer, settlePrompt, tapAnswer } from './ai-sdk-calls.ts';
import { requirePeer } from './peer-version.ts';
import { type Integration, reading, stepsAround, type WatchOptions } from './watched-run.ts';

const INTEGRATION: Integration = { name: '@understudy-gateway/ai-sdk', framework: 'ai-sdk' };
requirePeer(INTEGRATION, 'ai', '>=5.0.0 <8');

/** Whether `ai` is version 7 or later. */
const HAS_TELEMETRY = 'registerTelemetry' in ai;

/** Maximum number of generations in progress; with more, the oldest is forgotten. */
const GENERATIONS_MAX = 1_000;

/**
 * A generation in progress. Its steps are logged to the run in which it began, even if its stream is read outside that
 * run.
 */
interface Generation {
  steps: AgentSteps | null;
  end: () => void;
}

type EventOf<Name extends keyof Telemetry> = Parameters<
  Extract<Telemetry[Name], (event: never) => unknown>
>[0];
type Prompt = Parameters<NonNullable<LanguageModelMiddleware['wrapGenerate']>>[0]['params']['prompt'];

/**
 * Logs the steps of every generation: `registerTelemetry(understudyTelemetry())`, once.
 * @throws Error with `ai` 5 and 6, with which `understudyMiddleware` logs the steps
 */
export function understudyTelemetry(options: WatchOptions = {}): Telemetry {
  if (!HAS_TELEMETRY) {
    throw new Error(
      'understudyTelemetry needs ai 7. With ai 5 and 6, understudyMiddleware() alone logs the steps',
    );
  }
  const generations = new Map<string, Generation>();
  const start = ({ callId }: { callId: string }): void => {
    const steps = stepsAround(INTEGRATION, options);
    if (generations.size >= GENERATIONS_MAX) generations.delete(generations.keys().next().value!);
    generations.set(callId, { steps, end: steps?.expectStream() ?? (() => {}) });
  };
  const end = (event: unknown): void => {
    const { callId } = event as { callId: string };
    generations.get(callId)?.end();
    generations.delete(callId);
  };
  const watchCall = ({ callId }: { callId: string }, read: (steps: AgentSteps) => void) => {
    const generation = generations.get(callId);
    const steps = generation === undefined ? stepsAround(INTEGRATION, options) : generation.steps;
    if (steps !== null) read(steps);
  };
  const guarded =
    <Event>(take: (event: Event) => void) =>
    (event: Event) =>
      reading(INTEGRATION, () => take(event));
  return {
    onStart: guarded(start),
    onLanguageModelCallEnd: guarded((event: EventOf<'onLanguageModelCallEnd'>) =>
      watchCall(event, (steps) => readCall(steps, event)),
    ),
    onToolExecutionEnd: guarded((event: EventOf<'onToolExecutionEnd'>) =>
      watchCall(event, (steps) => readTool(steps, event)),
    ),
    onEnd: guarded(end),
    onAbort: guarded(end),
    onError: guarded(end),
  };
}

function readTool(steps: AgentSteps, { toolCall, toolOutput }: EventOf<'onToolExecutionEnd'>): void {
  const isError = toolOutput.type === 'tool-error';
  steps.returned({
    id: toolCall.toolCallId,
    name: toolCall.toolName,
    input: toolCall.input,
    observation: isError ? textOfError(toolOutput.error) : toolOutput.output,
    isError,
  });
}

/**
 * Adds an intervention to the system prompt of the next model call, and only of that call:
 * `wrapLanguageModel({ model, middleware: understudyMiddleware() })`. With `ai` 5 and 6 it also logs the
 * steps.
 */
export function understudyMiddleware(options: WatchOptions = {}): LanguageModelMiddleware {
  return {
    specificationVersion: HAS_TELEMETRY ? 'v4' : ('v3' as 'v4'),
    wrapGenerate: async ({ doGenerate, model, params }) => {
      const steps = begin(options, params.prompt);
      const result = await tell(steps, doGenerate, (text) =>
        model.doGenerate({ ...params, prompt: addText(params.prompt, text) }),
      );
      if (steps !== null && !HAS_TELEMETRY) {
        reading(INTEGRATION, () => readAnswer(steps, result.content, result.usage));
      }
      return result;
    },
    wrapStream: async ({ doStream, model, params }) => {
      const end = HAS_TELEMETRY ? null : (stepsAround(INTEGRATION, options)?.expectStream() ?? null);
      const steps = begin(options, params.prompt);
      try {
        const result = await tell(steps, doStream, (text) =>
          model.doStream({ ...params, prompt: addText(params.prompt, text) }),
        );
        if (steps === null || end === null) return result;
        return { ...result, stream: tapAnswer(INTEGRATION, steps, result.stream, end) };
      } catch (thrown) {
        end?.();
        throw thrown;
      }
    },
  };
}

/** Called before a model call. @returns null outside of runs */
function begin(options: WatchOptions, prompt: Prompt): AgentSteps | null {
  const steps = stepsAround(INTEGRATION, options);
  if (steps !== null && !HAS_TELEMETRY) reading(INTEGRATION, () => settlePrompt(steps, prompt));
  return steps;
}

async function tell<Result>(
  steps: AgentSteps | null,
  asItIs: () => PromiseLike<Result>,
  withText: (text: string) => PromiseLike<Result>,
): Promise<Result> {
  const said = steps?.takeIntervention() ?? null;
  if (steps === null || said === null) return asItIs();
  try {
    return await withText(said.text);
  } catch (thrown) {
    steps.giveBack(said);
    throw thrown;
  }
}

/** Adds a text after the system messages, so that the provider's cache of these stays valid. */
function addText(prompt: Prompt, text: string): Prompt {
  const place = prompt.findIndex(({ role }) => role !== 'system');
  return prompt.toSpliced(place < 0 ? prompt.length : place, 0, { role: 'system', content: text });
}

function readCall(steps: AgentSteps, { content, usage }: EventOf<'onLanguageModelCallEnd'>): void {
  const textsOf = (type: 'text' | 'reasoning') =>
    content.flatMap((part) => (part.type === type ? [part.text] : [])).join(type === 'text' ? '' : '\n');
  const calls = content.filter((part) => part.type === 'tool-call');
  steps.answered({
    text: textsOf('text'),
    thinking: textsOf('reasoning'),
    calls: calls.map(({ toolCallId, toolName, input }) => ({ id: toolCallId, name: toolName, input })),
    tokens: usage?.totalTokens ?? 0,
  });
  // Calls with invalid arguments, or of unknown tools, never reach a tool, so their errors are logged here.
  for (const { toolCallId: id, invalid, error } of calls)
    if (invalid === true) steps.returned({ id, observation: textOfError(error), isError: true });
  // These tools were called by the provider itself.
  for (const part of content) {
    if (part.type === 'tool-result')
      steps.returned({ id: part.toolCallId, observation: part.output, isError: false });
    if (part.type === 'tool-error')
      steps.returned({ id: part.toolCallId, observation: textOfError(part.error), isError: true });
  }
}
