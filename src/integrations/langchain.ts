/**
 * `understudy/langchain`: LangChain.js and LangGraph. A callback handler logs the steps, a middleware brings interventions to the
 * next call of the model. Any thread.
 *
 * The middleware wraps model calls alone. With a `wrapToolCall`, whatever it does, LangChain no longer hands a tool's error to
 * the model and ends the agent instead.
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
import { type AgentMiddleware, createMiddleware } from 'langchain';
import { textOfError, textOfParts } from '../client/observation.ts';
import type { AgentSteps } from './agent-steps.ts';
import { stepsAround, type WatchOptions, watch } from './watched-run.ts';

const NAME = 'understudy';

/** Tools that are at work at once; the one that began first is forgotten when there are more. */
const TOOLS_MAX = 1_000;

interface ToolAtWork {
  id: string;
  name: string;
  input: string;
}

/**
 * Logs the steps of whatever it is a callback of: `agent.invoke(input, { callbacks: [new UnderstudyHandler()] })`. It is called
 * at once, where LangChain would put other handlers into a queue: a step is logged before the model is called again.
 */
export class UnderstudyHandler extends BaseCallbackHandler {
  override name = NAME;
  readonly watched: WatchOptions;
  readonly #tools = new Map<string, ToolAtWork>();

  constructor(options: WatchOptions = {}) {
    super({ _awaitHandler: true, raiseError: false });
    this.watched = options;
  }

  /** Results that no tool has told of: of calls with wrong arguments, or of tools that do not exist. */
  override handleChatModelStart(_model: unknown, conversations: BaseMessage[][]): void {
    this.#watch((steps) => {
      for (const message of conversations.flat()) {
        if (message.type === 'tool') settle(steps, message as ToolMessage);
      }
    });
  }

  override handleLLMEnd(output: LLMResult): void {
    this.#watch((steps) => {
      for (const [generation] of output.generations) {
        const message = generation === undefined ? undefined : readMessage(generation);
        if (message !== undefined) steps.answered(readAnswer(message));
      }
    });
  }

  override handleToolStart(
    tool: { id?: string[]; name?: string },
    input: string,
    runId: string,
    _parentRunId?: string,
    _tags?: string[],
    _metadata?: Record<string, unknown>,
    runName?: string,
    toolCallId?: string,
  ): void {
    if (this.#tools.size >= TOOLS_MAX) this.#tools.delete(this.#tools.keys().next().value!);
    this.#tools.set(runId, { id: toolCallId ?? '', name: runName ?? tool?.name ?? '', input });
  }

  override handleToolEnd(output: unknown, runId: string): void {
    const tool = this.#end(runId);
    this.#watch((steps) => {
      const message = findToolMessage(output, tool.id);
      steps.returned({
        ...tool,
        observation: message === null ? output : textOfParts(message.content),
        isError: message?.status === 'error',
      });
    });
  }

  override handleToolError(error: unknown, runId: string): void {
    const tool = this.#end(runId);
    // An interrupt for a human, or a hand-over to another agent: the call goes on later.
    if ((error as { is_bubble_up?: unknown } | null)?.is_bubble_up === true) return;
    this.#watch((steps) => steps.returned({ ...tool, observation: textOfError(error), isError: true }));
  }

  #end(runId: string): ToolAtWork {
    const tool = this.#tools.get(runId) ?? { id: '', name: '', input: '' };
    this.#tools.delete(runId);
    return tool;
  }

  #watch(read: (steps: AgentSteps) => void): void {
    watch('understudy/langchain', this.watched, read);
  }
}

/**
 * Adds what the run should be told to the system prompt of the next call of the model, of that call alone:
 * `createAgent({ model, tools, middleware: [understudyMiddleware()] })`.
 */
export function understudyMiddleware(options: WatchOptions = {}): AgentMiddleware {
  return createMiddleware({
    name: NAME,
    wrapModelCall: async (request, handler) => {
      const steps = stepsAround(options);
      const said = steps?.takeIntervention() ?? null;
      if (steps === null || said === null) return handler(request);
      try {
        return await handler({ ...request, systemMessage: addText(request.systemMessage, said.text) });
      } catch (thrown) {
        steps.giveBack(said);
        throw thrown;
      }
    },
  });
}

/**
 * The same for a graph's own nodes: `model.invoke(withIntervention(state.messages))`.
 * @returns the messages as they are when there is nothing to be told
 */
export function withIntervention(messages: BaseMessage[], options: WatchOptions = {}): BaseMessage[] {
  const said = stepsAround(options)?.takeIntervention() ?? null;
  if (said === null) return messages;
  const [first, ...rest] = messages;
  if (first?.type !== 'system') return [new SystemMessage(said.text), ...messages];
  return [addText(first as SystemMessage, said.text), ...rest];
}

function addText(system: SystemMessage, text: string): SystemMessage {
  if (system.text === '') return new SystemMessage(text);
  return system.concat(typeof system.content === 'string' ? `\n\n${text}` : text);
}

function settle(steps: AgentSteps, message: ToolMessage): void {
  const { tool_call_id: id, content, status } = message;
  if (!steps.awaits(id)) return;
  steps.returned({ id, observation: textOfParts(content), isError: status === 'error' });
}

/** A tool gives its message itself, or a command that puts it into the state. */
function findToolMessage(output: unknown, id: string): ToolMessage | null {
  const candidates = [output, ...readUpdates(output)] as (Partial<ToolMessage> | null)[];
  const isTheOne = (one: (typeof candidates)[number]) =>
    one?.type === 'tool' && (id === '' || one.tool_call_id === id);
  return (candidates.find(isTheOne) as ToolMessage | undefined) ?? null;
}

function readUpdates(output: unknown): unknown[] {
  const messages = (output as { update?: { messages?: unknown } } | null)?.update?.messages;
  return Array.isArray(messages) ? messages : [];
}

function readMessage(generation: object): AIMessage | undefined {
  return 'message' in generation ? (generation.message as AIMessage) : undefined;
}

function readAnswer(message: AIMessage) {
  const thinking = message.contentBlocks.flatMap((block) =>
    block.type === 'reasoning' ? [String(block.reasoning ?? '')] : [],
  );
  return {
    text: message.text,
    thinking: thinking.join('\n'),
    calls: (message.tool_calls ?? []).map(({ id = '', name, args }) => ({ id, name, input: args })),
    tokens: (message.usage_metadata as UsageMetadata | undefined)?.total_tokens ?? 0,
  };
}
