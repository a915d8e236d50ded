/**
 * `@understudy-gateway/openai-agents`: for the OpenAI Agents SDK (`@openai/agents`). The events of a runner show how
 * its tools ended. All other facts are read from the runner's next input to the model. Interventions are added to the
 * same input. Any thread.
 *
 * The integration is not a trace processor, because the SDK calls processors one after another and waits for each. A
 * network exporter before it would delay the integration, and without tracing the integration would not be called. A
 * user's processors stay unchanged.
 */
import {
  type AgentInputItem,
  type CallModelInputFilter,
  getCurrentSpan,
  getCurrentTrace,
  type RunContext,
  type Runner,
  type RunToolCallItem,
  StreamedRunResult,
} from '@openai/agents';
import { textOfParts } from '../client/observation.ts';
import type { Intervention } from '../client/run.ts';
import { parseExact } from '../std/exact-json.ts';
import type { AgentSteps, AskedCall, ToolResult } from './agent-steps.ts';
import { requirePeer } from './peer-version.ts';
import { type Integration, stepsAround, type WatchOptions, watch } from './watched-run.ts';

type Context = RunContext<unknown>;
type ToolCall = RunToolCallItem['rawItem'];

const INTEGRATION: Integration = { name: '@understudy-gateway/openai-agents', framework: 'openai-agents' };
requirePeer(INTEGRATION, '@openai/agents', '>=0.3.0 <1');

/** The SDK's text for an exception of a tool. Older versions add the error to it. */
const FAILED = 'An error occurred while running the tool. Please try again.';

/**
 * Logs the steps of everything that the runner runs, and adds interventions to the instructions of the next model call,
 * and only of that call. A `callModelInputFilter` of the runner is still called.
 * @returns the same runner
 */
export function watchRunner(runner: Runner, options: WatchOptions = {}): Runner {
  const watchTurns = (read: (turns: Turns) => void) =>
    watch(INTEGRATION, options, (steps) => read(Turns.of(steps)));
  runner.config.callModelInputFilter = understudyInputFilter(options, runner.config.callModelInputFilter);
  watchStreams(runner, options);
  runner.on('agent_start', (context, _agent, input = []) =>
    watchTurns((turns) => turns.began(context, input)),
  );
  runner.on('agent_tool_start', () => watchTurns((turns) => turns.heard()));
  runner.on('agent_tool_end', (context, _agent, tool, result, { toolCall }) =>
    watchTurns((turns) => turns.toolEnded(context, tool.name, toolCall, result)),
  );
  runner.on('agent_handoff', (context, _agent, next) =>
    watchTurns((turns) => turns.handedOver(context, next.name)),
  );
  runner.on('agent_end', (context, _agent, output) =>
    watchTurns((turns) => turns.agentEnded(context, output)),
  );
  return runner;
}

/** Keeps a run open for steps until its stream has been read, which may be after the scope of the run. */
function watchStreams(runner: Runner, options: WatchOptions): void {
  const { run } = runner;
  const watched = async (...args: unknown[]): Promise<unknown> => {
    const steps = stepsAround(INTEGRATION, options);
    const result: unknown = await Reflect.apply(run, runner, args);
    if (steps === null || !(result instanceof StreamedRunResult)) return result;
    const end = steps.expectStream();
    // A rejection needs no handling here, because the SDK handles it.
    result.completed.then(end, end);
    return result;
  };
  runner.run = watched as Runner['run'];
}

/**
 * For a run with its own `callModelInputFilter`, which replaces the runner's: `runner.run(agent, input, {
 * callModelInputFilter: understudyInputFilter({}, own) })`.
 */
export function understudyInputFilter(
  options: WatchOptions = {},
  own?: CallModelInputFilter,
): CallModelInputFilter {
  const filter: CallModelInputFilter = async (args) => {
    watch(INTEGRATION, options, (steps) => Turns.of(steps).read(args.modelData.input));
    const data = own === undefined ? args.modelData : await own(args);
    const steps = stepsAround(INTEGRATION, options);
    // If the input is not a list, the SDK reports an error itself.
    const said = steps !== null && Array.isArray(data?.input) ? Turns.of(steps).takeIntervention() : null;
    if (said === null) return data;
    const instructions = data.instructions ?? args.modelData.instructions;
    return { ...data, instructions: [instructions, said.text].filter(Boolean).join('\n\n') };
  };
  return own?.preserveInputIdentity === true
    ? Object.assign(filter, { preserveInputIdentity: true })
    : filter;
}

/** A tool call with its result that is not logged yet. */
interface EndedCall {
  context: Context | null;
  call: AskedCall;
  result: ToolResult;
}

/** An intervention in a running model call. */
interface Told {
  said: Intervention;
  trace: ReturnType<typeof getCurrentTrace>;
  /** The span of the turn, which ends with the turn. Without tracing, the span is null or never ends. */
  span: ReturnType<typeof getCurrentSpan>;
}

/**
 * Maximum numbers of calls, of ids of calls and of interventions in progress that are kept for a run. Beyond a maximum,
 * the oldest entry is dropped.
 */
const KEPT_MAX = 1_000;

const turnsOfRuns = new WeakMap<AgentSteps, Turns>();

/**
 * The state of the agents of one run. A call is logged at the next model call, with the model's text before
 * it, or when the agent has ended.
 */
class Turns {
  readonly #steps: AgentSteps;
  readonly #ended = new Map<string, EndedCall>();
  /** Ids of calls from before the run. */
  readonly #former = new Set<string>();
  /** Tokens that were assigned to steps, by run of the SDK. */
  readonly #tokens = new WeakMap<Context, number>();
  readonly #handedOver = new WeakSet<Context>();
  /** Ids of calls that hand over to other agents. */
  readonly #transfers = new Set<string>();
  #told: Told[] = [];

  private constructor(steps: AgentSteps) {
    this.#steps = steps;
  }

  static of(steps: AgentSteps): Turns {
    const known = turnsOfRuns.get(steps);
    if (known !== undefined) return known;
    const made = new Turns(steps);
    turnsOfRuns.set(steps, made);
    return made;
  }

  /** Notes the calls that were made before the agent started. @param input the input with which the agent is started */
  began(context: Context, input: readonly AgentInputItem[]): void {
    // After a hand-over, the new agent continues the conversation of the previous agent.
    if (this.#handedOver.delete(context)) return;
    for (const { callId } of lastTurn(input).results) {
      this.#former.add(callId);
      forgetOldest(this.#former);
    }
  }

  /** Called when the model has answered. */
  heard(): void {
    const trace = getCurrentTrace();
    this.#told = this.#told.filter((told) => told.trace !== trace);
  }

  toolEnded(context: Context, name: string, toolCall: ToolCall, observation: string): void {
    const id =
      'callId' in toolCall && typeof toolCall.callId === 'string' ? toolCall.callId : (toolCall.id ?? '');
    const call = { id, name, input: inputOf(toolCall) };
    this.#ended.set(id, { context, call, result: { id, observation, isError: hasFailed(observation) } });
    forgetOldest(this.#ended);
  }

  handedOver(context: Context, name: string): void {
    this.heard();
    this.#handedOver.add(context);
    this.#transfers.add(JSON.stringify({ assistant: name }));
    forgetOldest(this.#transfers);
  }

  agentEnded(context: Context, output: string): void {
    this.heard();
    const rest = [...this.#ended.values()].filter((ended) => ended.context === context);
    this.#log(rest, '', '');
    // The output may be the result of a tool.
    if (rest.some(({ result }) => result.observation === output)) return;
    this.#steps.answered({ text: output, thinking: '', calls: [], tokens: this.#takeTokens(context) });
  }

  /** Logs the calls whose results are in the input. @param input the input of the next model call */
  read(input: readonly AgentInputItem[]): void {
    const { results, calls, text, thinking } = lastTurn(input);
    const ids = new Set(results.map(({ callId }) => callId));
    // The events of calls with invalid arguments lack the arguments.
    const ended = [...this.#ended.values()]
      .filter(({ call }) => ids.has(call.id))
      .map((entry) => ({
        ...entry,
        call: { ...entry.call, input: calls.get(entry.call.id)?.input ?? entry.call.input },
      }));
    for (const { callId: id, name, output } of results) {
      if (this.#ended.has(id) || this.#former.has(id)) continue;
      // No tool received the call: the arguments are invalid, the tool does not exist, a human has refused the call, or
      // it hands over to another agent.
      const observation = textOfParts(Array.isArray(output) ? output : [output]);
      const isError = !this.#transfers.has(observation);
      const call = calls.get(id) ?? { id, name, input: undefined };
      ended.push({ context: null, call, result: { id, observation, isError } });
      this.#former.add(id);
      forgetOldest(this.#former);
    }
    if (ended.length === 0) return;
    this.heard();
    this.#log(ended, text, thinking);
  }

  /**
   * Returns the intervention for the present model call; null: none. Returns an intervention again if the turn of its
   * model call has ended without an answer.
   */
  takeIntervention(): Intervention | null {
    const unheard = this.#told.find(({ span }) => span !== null && span.endedAt !== null);
    const said = unheard?.said ?? this.#steps.takeIntervention();
    if (said === null) return null;
    const others = this.#told.filter((told) => told !== unheard);
    this.#told = [...others, { said, trace: getCurrentTrace(), span: getCurrentSpan() }].slice(-KEPT_MAX);
    return said;
  }

  #log(ended: readonly EndedCall[], text: string, thinking: string): void {
    if (ended.length === 0) return;
    const context = ended.find((entry) => entry.context !== null)?.context ?? null;
    const tokens = context === null ? 0 : this.#takeTokens(context);
    this.#steps.answered({ text, thinking, calls: ended.map(({ call }) => call), tokens });
    for (const { result } of ended) {
      this.#steps.returned(result);
      this.#ended.delete(result.id);
    }
  }

  #takeTokens(context: Context): number {
    const before = this.#tokens.get(context) ?? 0;
    this.#tokens.set(context, context.usage.totalTokens);
    return context.usage.totalTokens - before;
  }
}

type CallResult = Extract<AgentInputItem, { type: 'function_call_result' }>;

/** The end of a conversation before a model call: the last answer and the results of its calls. */
function lastTurn(input: readonly AgentInputItem[]) {
  const results: CallResult[] = [];
  const calls = new Map<string, AskedCall>();
  const texts: string[] = [];
  const thoughts: string[] = [];
  for (const item of input.toReversed()) {
    const isOfAnswer = calls.size + texts.length + thoughts.length > 0;
    if (isResult(item) && !isOfAnswer) {
      results.unshift(item as CallResult);
    } else if (item.type === 'reasoning') {
      thoughts.unshift(textOfParts(item.content));
    } else if ('callId' in item && typeof item.callId === 'string' && !isResult(item)) {
      const call = item as ToolCall & { callId: string };
      const name = 'name' in call && typeof call.name === 'string' ? call.name : '';
      calls.set(call.callId, { id: call.callId, name, input: inputOf(call) });
    } else if ('role' in item && item.role === 'assistant') {
      texts.unshift(textOfParts(item.content));
    } else break;
  }
  return { results, calls, text: texts.join(''), thinking: thoughts.join('\n') };
}

function isResult({ type }: AgentInputItem): boolean {
  return type?.endsWith('_call_result') === true || type?.endsWith('_call_output') === true;
}

function inputOf(call: ToolCall): unknown {
  if ('arguments' in call) return parseArguments(call.arguments);
  if ('action' in call) return call.action;
  return 'operation' in call ? call.operation : undefined;
}

function parseArguments(json: string | undefined): unknown {
  try {
    return parseExact(json ?? '');
  } catch {
    return json;
  }
}

/** Whether a tool has failed. The tool's span has the error. Without tracing, only the SDK's text shows it. */
function hasFailed(observation: string): boolean {
  const span = getCurrentSpan();
  return observation.startsWith(FAILED) || (span?.spanData.type === 'function' && span.error !== null);
}

function forgetOldest(kept: Map<string, unknown> | Set<string>): void {
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value!);
}
