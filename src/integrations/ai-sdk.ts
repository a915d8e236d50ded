/**
 * `understudy/ai-sdk`: the AI SDK (`ai`). A telemetry integration logs the steps, a language-model middleware brings
 * interventions to the next call of the model. Neither waits for the network. Any thread.
 */
import type { LanguageModelMiddleware, Telemetry } from 'ai';
import { textOfError } from '../client/observation.ts';
import type { AgentSteps } from './agent-steps.ts';
import { stepsAround, type WatchOptions, watch } from './watched-run.ts';

type EventOf<Name extends keyof Telemetry> = Parameters<
  Extract<Telemetry[Name], (event: never) => unknown>
>[0];
type Prompt = Parameters<NonNullable<LanguageModelMiddleware['wrapGenerate']>>[0]['params']['prompt'];

/** Logs the steps of every generation: `registerTelemetry(understudyTelemetry())`, once. */
export function understudyTelemetry(options: WatchOptions = {}): Telemetry {
  const watchCall = (read: (steps: AgentSteps) => void) => watch('understudy/ai-sdk', options, read);
  return {
    onLanguageModelCallEnd: (event) => watchCall((steps) => readCall(steps, event)),
    onToolExecutionEnd: ({ toolCall, toolOutput }) =>
      watchCall((steps) => {
        const isError = toolOutput.type === 'tool-error';
        steps.returned({
          id: toolCall.toolCallId,
          name: toolCall.toolName,
          input: toolCall.input,
          observation: isError ? textOfError(toolOutput.error) : toolOutput.output,
          isError,
        });
      }),
  };
}

/**
 * Adds what the run should be told to the system prompt of the next call of the model, of that call alone:
 * `wrapLanguageModel({ model, middleware: understudyMiddleware() })`.
 */
export function understudyMiddleware(options: WatchOptions = {}): LanguageModelMiddleware {
  return {
    specificationVersion: 'v4',
    wrapGenerate: ({ doGenerate, model, params }) =>
      tell(options, doGenerate, (text) =>
        model.doGenerate({ ...params, prompt: addText(params.prompt, text) }),
      ),
    wrapStream: ({ doStream, model, params }) =>
      tell(options, doStream, (text) => model.doStream({ ...params, prompt: addText(params.prompt, text) })),
  };
}

async function tell<Result>(
  options: WatchOptions,
  asItIs: () => PromiseLike<Result>,
  withText: (text: string) => PromiseLike<Result>,
): Promise<Result> {
  const steps = stepsAround(options);
  const said = steps?.takeIntervention() ?? null;
  if (steps === null || said === null) return asItIs();
  try {
    return await withText(said.text);
  } catch (thrown) {
    steps.giveBack(said);
    throw thrown;
  }
}

/** Behind the system messages that are there: what is cached of them stays so. */
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
  // No tool is called with wrong arguments, and none that does not exist.
  for (const { toolCallId: id, invalid, error } of calls)
    if (invalid === true) steps.returned({ id, observation: textOfError(error), isError: true });
  // Tools that the provider itself has called.
  for (const part of content) {
    if (part.type === 'tool-result')
      steps.returned({ id: part.toolCallId, observation: part.output, isError: false });
    if (part.type === 'tool-error')
      steps.returned({ id: part.toolCallId, observation: textOfError(part.error), isError: true });
  }
}
