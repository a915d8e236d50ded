/**
 * Runs the six monitors over a captured run. Live monitors judge the steps that an agent reports; here the captured
 * turns become the same steps: a tool call with its result, and an answer without a call as `respond`. The model's text
 * beside calls is the thought of the first call. Pure; capture reader, command line. Each conversation of the run (a
 * sub-agent's, for example) is judged separately, because two agents that do the same are not in a loop. Only the end
 * of the run counts: a monitor that fires at one of its last NEAR_END.steps steps, or in the last NEAR_END.share of
 * them if that is more. An agent that looped earlier and then continued has recovered. Memory: a monitor's state and
 * MAX_WAITING calls without a result for each of the last MAX_CONVERSATIONS conversations, and the last MAX_FIRED steps
 * at which a monitor fired.
 */
import { isRawNumber } from '../std/exact-json.ts';
import { stripClientWords } from './client-words.ts';
import { digestStep } from './monitors/digest.ts';
import { type MonitorStep, maskStep } from './monitors/masked-step.ts';
import { advanceMonitors, initialMonitors, type MonitorsState } from './monitors/monitors.ts';
import { MONITOR_NAMES, type MonitorName } from './monitors/names.ts';
import { BUILT_IN_PROFILES } from './monitors/profiles.ts';
import type { NormalTurn, TurnBlock, TurnMessage } from './turn.ts';

/** The end of a run: this many last steps, or this share of all, whichever is more. */
export const NEAR_END = { steps: 5, share: 0.1 } as const;

const MAX_CONVERSATIONS = 64;
const MAX_WAITING = 256;
const MAX_FIRED = 4_096;
/** Maximum number of characters of arguments and results that are kept. The monitors read the ends of longer texts. */
const TEXT_CHARACTERS = 256 * 1024;

/** A monitor that fired near the end of a run. */
export interface FiredNearEnd {
  monitor: MonitorName;
  /** Number of steps near the end at which it fired. */
  steps: number;
  /** The exchange whose answer contains the last of them. */
  exchange_id: number;
}

/** A step that the monitors have judged. */
export interface JudgedStep {
  /** The exchange whose answer contains the step. */
  exchange_id: number;
  /** null: the step is an answer without a call. */
  call_id: string | null;
  /** The tool's name; `respond` for an answer without a call. */
  action: string;
  is_error: boolean;
  /** Whether a result arrived. */
  has_result: boolean;
  fired: readonly MonitorName[];
}

/** A call that waits for its result. */
interface WaitingStep {
  /** null: the step is an answer without a call, and waits for no result. */
  call_id: string | null;
  exchange_id: number;
  step: Omit<MonitorStep, 'step_index'>;
}

interface MonitoredConversation {
  monitors: MonitorsState;
  waiting: WaitingStep[];
}

/** Runs the monitors over the turns of one run. */
export class CapturedMonitor {
  readonly #conversations = new Map<number, MonitoredConversation>();
  readonly #fired: { at: number; exchange_id: number; monitors: readonly MonitorName[] }[] = [];
  readonly #onStep: (step: JudgedStep) => void;
  #steps = 0;
  /** Tool calls whose result says that they failed. */
  failed_calls = 0;

  /** @param onStep gets each step as soon as it is judged */
  constructor(onStep: (step: JudgedStep) => void = () => {}) {
    this.#onStep = onStep;
  }

  /** Steps so far. */
  get steps(): number {
    return this.#steps;
  }

  /**
   * Adds the run's next turn.
   * @param exchange `conversation`: the conversation of the run to which it belongs; `is_answered`: its answer is
   *   complete; `is_retry`: it repeats the request of an earlier exchange
   */
  add(
    exchange: { id: number; conversation: number; is_answered: boolean; is_retry: boolean },
    { request, answer }: NormalTurn,
  ): void {
    const conversation = this.#find(exchange.conversation, request.messages);
    // The client repeats the request instead of continuing from the earlier answer, so the calls of that answer get no
    // results.
    if (exchange.is_retry && exchange.is_answered) conversation.waiting.length = 0;
    this.#settle(conversation, listResults(request.messages));
    if (exchange.is_answered) this.#addAnswer(conversation, exchange.id, answer.content);
  }

  /** Lists the monitors that fired near the end, in the order of their names. Call it after the last turn. */
  finish(): FiredNearEnd[] {
    for (const conversation of this.#conversations.values()) this.#settle(conversation, []);
    const from = this.#steps - Math.max(NEAR_END.steps, Math.ceil(this.#steps * NEAR_END.share));
    const near = this.#fired.filter(({ at }) => at >= from);
    return MONITOR_NAMES.flatMap((monitor) => {
      const fired = near.filter(({ monitors }) => monitors.includes(monitor));
      const last = fired.at(-1);
      return last === undefined ? [] : [{ monitor, steps: fired.length, exchange_id: last.exchange_id }];
    });
  }

  #find(number: number, messages: readonly TurnMessage[]): MonitoredConversation {
    const known = this.#conversations.get(number);
    if (known !== undefined) return known;
    const made = { monitors: initialMonitors(readTask(messages)), waiting: [] };
    this.#conversations.set(number, made);
    if (this.#conversations.size > MAX_CONVERSATIONS) {
      const [oldest] = this.#conversations.keys();
      this.#settle(this.#conversations.get(oldest!)!, []);
      this.#conversations.delete(oldest!);
    }
    return made;
  }

  #addAnswer(conversation: MonitoredConversation, exchange_id: number, content: readonly TurnBlock[]): void {
    const text = joinTexts(content, 'text') || joinTexts(content, 'refusal');
    const thinking = joinTexts(content, 'thinking');
    const calls = content.filter((block) => block.type === 'tool_call');
    if (calls.length === 0 && text !== '')
      this.#judge(conversation, { call_id: null, exchange_id, step: makeStep('respond', text, thinking) });
    let thought = text || thinking;
    for (const { id, name, input } of calls) {
      const step = makeStep(name || 'tool', writeArguments(input), thought);
      thought = '';
      conversation.waiting.push({ call_id: id, exchange_id, step });
      if (conversation.waiting.length > MAX_WAITING) this.#judge(conversation, conversation.waiting.shift()!);
    }
  }

  /** Judges all waiting calls in their order. A call without a result in `results` is judged without one. */
  #settle(conversation: MonitoredConversation, results: readonly ToolResult[]): void {
    const { waiting } = conversation;
    if (waiting.length === 0) return;
    const left = [...results];
    for (const asked of waiting.splice(0)) {
      // If several calls have the same id, their results have the order of the calls.
      const at = left.findIndex(({ call_id }) => call_id === asked.call_id || call_id === null);
      const [result] = at < 0 ? [] : left.splice(at, 1);
      if (result !== undefined) {
        asked.step.observation = readObservation(result.content);
        asked.step.is_error = result.is_error;
        if (result.is_error) this.failed_calls += 1;
      }
      this.#judge(conversation, asked, result !== undefined);
    }
  }

  #judge(
    conversation: MonitoredConversation,
    { call_id, exchange_id, step }: WaitingStep,
    has_result = false,
  ): void {
    const at = this.#steps++;
    const digest = digestStep(maskStep({ ...step, step_index: at }));
    const { state, outcome } = advanceMonitors(conversation.monitors, digest, BUILT_IN_PROFILES.coding);
    conversation.monitors = state;
    const { action, is_error } = step;
    this.#onStep({ exchange_id, call_id, action, is_error, has_result, fired: outcome.fired });
    if (outcome.fired.length === 0) return;
    this.#fired.push({ at, exchange_id, monitors: outcome.fired });
    if (this.#fired.length > MAX_FIRED) this.#fired.shift();
  }
}

type ToolResult = Extract<TurnBlock, { type: 'tool_result' }>;

/** Lists the tool results that follow the last answer in the messages. */
function listResults(messages: readonly TurnMessage[]): ToolResult[] {
  const from = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  return messages
    .slice(from)
    .flatMap(({ content }) => content.filter((block) => block.type === 'tool_result'));
}

function makeStep(action: string, action_input: string, thought: string): WaitingStep['step'] {
  // The result is unknown until the next request.
  const observation = action === 'respond' ? '' : null;
  return { action, action_input, thought, observation, is_error: false, tokens: 0 };
}

/** Finds the user's first words, without what the client adds; '' if the messages contain no such words. */
function readTask(messages: readonly TurnMessage[]): string {
  for (const { role, content } of messages) {
    const text = role === 'user' ? stripClientWords(joinTexts(content, 'text')) : '';
    if (text !== '') return text;
  }
  return '';
}

function joinTexts(content: readonly TurnBlock[], type: 'text' | 'refusal' | 'thinking'): string {
  return content
    .flatMap((block) => (block.type === type ? [block.text] : []))
    .join('\n')
    .trim()
    .slice(0, TEXT_CHARACTERS);
}

function writeArguments(input: unknown): string {
  if (typeof input === 'string') return input.slice(0, TEXT_CHARACTERS);
  const isEmpty = input === null || input === undefined;
  const text = isEmpty ? '' : isRawNumber(input) ? input.rawJSON : JSON.stringify(input);
  return cutMiddle(text);
}

function readObservation(content: readonly TurnBlock[]): string {
  return cutMiddle(content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n'));
}

function cutMiddle(text: string): string {
  if (text.length <= TEXT_CHARACTERS) return text;
  return `${text.slice(0, TEXT_CHARACTERS / 2)}\n${text.slice(-TEXT_CHARACTERS / 2)}`;
}
