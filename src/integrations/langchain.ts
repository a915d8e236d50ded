/**
 * `@understudy-gateway/langchain`: LangChain.js and LangGraph, from @langchain/core 0.3 on. A callback handler logs the
 * steps. `withIntervention` and the middleware of langchain-middleware.ts add interventions to the next model call. Any
 * thread.
 */
import { BaseCallbackHandler } from '@langchain/core/callbacks/base';
import {
  type AIMessage,
  type BaseMessage,
  SystemMessage,
  type ToolMessage,
  type UsageMetadata,
} from '@langchain/core/messages';
import type { LLMResult } from '@langchain/core/outputs';
import { textOfError, textOfParts } from '../client/observation.ts';
import type { AgentSteps } from './agent-steps.ts';
import { requirePeer } from './peer-version.ts';
import { type Integration, reading, stepsAround, type WatchOptions } from './watched-run.ts';

const NAME = 'understudy';
/** @internal */
export const INTEGRATION: Integration = { name: '@understudy-gateway/langchain', framework: 'langchain' };
requirePeer(INTEGRATION, '@langchain/core', '>=0.3.29 <2');

/** Maximum number of concurrent runs of LangChain. With more, the oldest one is forgotten. */
const UNDER_WAY_MAX = 10_000;

interface ToolAtWork {
  id: string;
  name: string;
  input: string;
}

/** A run of LangChain's own: a chain, a model call or a tool call. */
interface UnderWay {
  /** Steps of the run in which LangChain's outermost run began, even if a stream is read elsewhere. */
  steps: AgentSteps | null;
  tool: ToolAtWork | null;
  /** Ends the watch of the outermost run. */
  end: () => void;
}

/**
 * Logs the steps of every run of LangChain for which it is a callback: `agent.invoke(input, { callbacks: [new
 * UnderstudyHandler()] })`. LangChain calls it immediately, not through its queue, so that a step is logged before the
 * next model call.
 */
export class UnderstudyHandler extends BaseCallbackHandler {
  override name = NAME;
  readonly watched: WatchOptions;
  readonly #underWay = new Map<string, UnderWay>();

  constructor(options: WatchOptions = {}) {
    super({ _awaitHandler: true, raiseError: false });
    this.watched = options;
  }

  override handleChainStart(_chain: unknown, _inputs: unknown, runId: string, parentRunId?: string): void {
    reading(INTEGRATION, () => this.#begin(runId, parentRunId));
  }

  override handleChainEnd(_outputs: unknown, runId: string): void {
    reading(INTEGRATION, () => this.#end(runId));
  }

  override handleChainError(_error: unknown, runId: string): void {
    reading(INTEGRATION, () => this.#end(runId));
  }

  /** Logs the results of calls without a tool event, which are calls with invalid arguments or of unknown tools. */
  override handleChatModelStart(
    _model: unknown,
    conversations: BaseMessage[][],
    runId: string,
    parentRunId?: string,
  ): void {
    reading(INTEGRATION, () => {
      const steps = this.#begin(runId, parentRunId);
      if (steps === null) return;
      for (const message of conversations.flat()) {
        if (typeOf(message) === 'tool') settle(steps, message as ToolMessage);
      }
    });
  }

  override handleLLMStart(_model: unknown, _prompts: string[], runId: string, parentRunId?: string): void {
    reading(INTEGRATION, () => this.#begin(runId, parentRunId));
  }

  override handleLLMEnd(output: LLMResult, runId: string): void {
    reading(INTEGRATION, () =>
      this.#end(runId, (steps) => {
        for (const [generation] of output.generations) {
          const message = generation === undefined ? undefined : readMessage(generation);
          if (message !== undefined) steps.answered(readAnswer(message));
        }
      }),
    );
  }

  override handleLLMError(_error: unknown, runId: string): void {
    reading(INTEGRATION, () => this.#end(runId));
  }

  override handleToolStart(
    tool: { id?: string[]; name?: string },
    input: string,
    runId: string,
    parentRunId?: string,
    _tags?: string[],
    _metadata?: Record<string, unknown>,
    runName?: string,
    toolCallId?: string,
  ): void {
    const started = { id: toolCallId ?? '', name: runName ?? tool?.name ?? '', input };
    reading(INTEGRATION, () => this.#begin(runId, parentRunId, started));
  }

  override handleToolEnd(output: unknown, runId: string): void {
    reading(INTEGRATION, () =>
      this.#end(runId, (steps, tool) => {
        const message = findToolMessage(output, tool.id);
        steps.returned({
          ...tool,
          id: tool.id || (message?.tool_call_id ?? ''),
          observation: message === null ? output : textOfParts(message.content),
          isError: message?.status === 'error',
        });
      }),
    );
  }

  override handleToolError(error: unknown, runId: string): void {
    reading(INTEGRATION, () =>
      this.#end(runId, (steps, tool) => {
        // This is an interrupt for a human, or a hand-over to another agent. The call continues later.
        if ((error as { is_bubble_up?: unknown } | null)?.is_bubble_up === true) return;
        // LangChain 0.3 gives no call id here. The message in the next model call has the id, so the result is logged
        // then.
        if (tool.id === '' && steps.awaitsTool(tool.name)) return;
        steps.returned({ ...tool, observation: textOfError(error), isError: true });
      }),
    );
  }

  #begin(runId: string, parentRunId: string | undefined, tool: ToolAtWork | null = null): AgentSteps | null {
    const parent = parentRunId === undefined ? undefined : this.#underWay.get(parentRunId);
    const steps = parent === undefined ? stepsAround(INTEGRATION, this.watched) : parent.steps;
    const end = parent === undefined && steps !== null ? steps.expectStream() : () => {};
    if (this.#underWay.size >= UNDER_WAY_MAX) this.#underWay.delete(this.#underWay.keys().next().value!);
    this.#underWay.set(runId, { steps, tool, end });
    return steps;
  }

  #end(runId: string, read: (steps: AgentSteps, tool: ToolAtWork) => void = () => {}): void {
    const underWay = this.#underWay.get(runId);
    this.#underWay.delete(runId);
    const steps = underWay === undefined ? stepsAround(INTEGRATION, this.watched) : underWay.steps;
    if (steps !== null) read(steps, underWay?.tool ?? { id: '', name: '', input: '' });
    underWay?.end();
  }
}

/**
 * Adds an intervention to the system prompt of one model call, for nodes of your own graph:
 * `model.invoke(withIntervention(state.messages))`. Agents of `createAgent` use the middleware instead
 * (`/middleware`).
 * @returns the messages unchanged if there is no intervention
 */
export function withIntervention(messages: BaseMessage[], options: WatchOptions = {}): BaseMessage[] {
  const said = stepsAround(INTEGRATION, options)?.takeIntervention() ?? null;
  if (said === null) return messages;
  const [first, ...rest] = messages;
  if (first === undefined || typeOf(first) !== 'system') return [new SystemMessage(said.text), ...messages];
  return [addText(first as SystemMessage, said.text), ...rest];
}

/** Returns the system prompt with the text at its end. */
export function addText(system: SystemMessage, text: string): SystemMessage {
  if (system.text === '') return new SystemMessage(text);
  return system.concat(typeof system.content === 'string' ? `\n\n${text}` : text);
}

function settle(steps: AgentSteps, message: ToolMessage): void {
  const { tool_call_id: id, content, status } = message;
  if (!steps.awaits(id)) return;
  steps.returned({ id, observation: textOfParts(content), isError: status === 'error' });
}

/**
 * Finds the message with a tool's result in the output of the tool: the output is the message, or a command that adds
 * the message to the state. null: the output has no such message.
 * @param id of the call; '': any call, so the first message of a tool is taken
 */
function findToolMessage(output: unknown, id: string): ToolMessage | null {
  const candidates = [output, ...readUpdates(output)] as (Partial<ToolMessage> | null)[];
  const isMessageOfCall = (candidate: (typeof candidates)[number]) =>
    candidate !== null &&
    typeof candidate === 'object' &&
    typeOf(candidate) === 'tool' &&
    (id === '' || candidate.tool_call_id === id);
  return (candidates.find(isMessageOfCall) as ToolMessage | undefined) ?? null;
}

function readUpdates(output: unknown): unknown[] {
  const messages = (output as { update?: { messages?: unknown } } | null)?.update?.messages;
  return Array.isArray(messages) ? messages : [];
}

/** The type of a message, which different versions of LangChain store in different places. */
function typeOf(message: Partial<BaseMessage>): string {
  return message.type ?? message._getType?.() ?? '';
}

function readMessage(generation: object): AIMessage | undefined {
  return 'message' in generation ? (generation.message as AIMessage) : undefined;
}

function readAnswer(message: AIMessage) {
  const thinking = (message.contentBlocks ?? []).flatMap((block) =>
    block.type === 'reasoning' ? [String(block.reasoning ?? '')] : [],
  );
  return {
    text: message.text,
    thinking: thinking.join('\n'),
    calls: (message.tool_calls ?? []).map(({ id = '', name, args }) => ({ id, name, input: args })),
    tokens: (message.usage_metadata as UsageMetadata | undefined)?.total_tokens ?? 0,
  };
}
