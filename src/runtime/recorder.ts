/**
 * A handler's context: it only records effects and applies events. Used by the host and by the kit for tests (kit.ts).
 * Any thread with actors, and tests.
 */
import type {
  ActorAddress,
  AnyBehaviour,
  Context,
  Effect,
  Refusal,
  ReplyToken,
  RowWrite,
} from './protocol.ts';

const NO_BODIES: readonly Uint8Array[] = Object.freeze([]);
const NO_ROWS: readonly RowWrite[] = Object.freeze([]);
/** The token of a message that was sent with `tell`. Answers to it are dropped. */
export const NO_REPLY_TOKEN: ReplyToken = 0;

/** The data of the current message that a handler can read. */
interface MessageFacts {
  self: ActorAddress;
  now_ms: number;
  monotonic_ms: number;
  bodies: readonly Uint8Array[];
  /** NO_REPLY_TOKEN when the message was told or is internal. */
  token: ReplyToken;
}

/** Records the effects of one message. `state` is the state after the events recorded so far. */
export class Recorder implements Context<unknown, unknown, Record<string, never>, unknown> {
  readonly self: ActorAddress;
  readonly now_ms: number;
  readonly monotonic_ms: number;
  readonly bodies: readonly Uint8Array[];
  readonly effects: Effect[] = [];
  state: unknown;
  /** Whether the handler keeps the answer for later. */
  held = false;
  /** Number of events recorded. */
  persisted = 0;
  readonly #behaviour: AnyBehaviour;
  readonly #token: ReplyToken;
  #answered = false;
  /** The event that was recorded last. */
  #recorded: Extract<Effect, { type: 'persist' }> | null = null;

  constructor(behaviour: AnyBehaviour, state: unknown, facts: MessageFacts) {
    this.#behaviour = behaviour;
    this.state = state;
    this.self = facts.self;
    this.now_ms = facts.now_ms;
    this.monotonic_ms = facts.monotonic_ms;
    this.bodies = facts.bodies;
    this.#token = facts.token;
  }

  get asked(): boolean {
    return this.#token !== NO_REPLY_TOKEN;
  }

  /** True when the message was asked and is neither answered nor kept for later. */
  get unanswered(): boolean {
    return this.asked && !this.#answered && !this.held;
  }

  persist(event: unknown): unknown {
    const { persistence, kind } = this.#behaviour;
    if (persistence === undefined) throw new TypeError(`${kind} is not persistent: it has no events`);
    this.state = persistence.apply(this.state, event);
    const rows = persistence.project?.(this.state, event, this.self.key) ?? NO_ROWS;
    const recorded: Extract<Effect, { type: 'persist' }> = { type: 'persist', event, rows };
    this.effects.push(recorded);
    this.#recorded = recorded;
    this.persisted++;
    return this.state;
  }

  write(rows: readonly RowWrite[]): void {
    const recorded = this.#recorded;
    if (recorded === null) throw new TypeError('rows are written with an event, and none was recorded');
    recorded.rows = recorded.rows.length === 0 ? rows : [...recorded.rows, ...rows];
  }

  reply(value: unknown): void {
    if (!this.#claimAnswer()) return;
    this.effects.push({ type: 'reply', token: this.#token, value });
  }

  refuse(error: Refusal): void {
    if (!this.#claimAnswer()) return;
    this.effects.push({ type: 'refuse', token: this.#token, error });
  }

  holdReply(): ReplyToken {
    if (this.#answered) throw new TypeError('the answer has been given already');
    this.held = true;
    return this.#token;
  }

  replyTo(token: ReplyToken, value: unknown): void {
    if (token !== NO_REPLY_TOKEN) this.effects.push({ type: 'reply', token, value });
  }

  refuseTo(token: ReplyToken, error: Refusal): void {
    if (token !== NO_REPLY_TOKEN) this.effects.push({ type: 'refuse', token, error });
  }

  tell(to: ActorAddress, name: string, payload: unknown, bodies: readonly Uint8Array[] = NO_BODIES): boolean {
    this.effects.push({ type: 'tell', to, name, payload, bodies });
    return true;
  }

  publish(topic: string, payload: unknown): void {
    this.effects.push({ type: 'publish', topic, payload });
  }

  count(counter: string, of = '', by = 1): void {
    this.effects.push({ type: 'count', counter, of, by });
  }

  setTimer(timer: string, delay_ms: number, name: string, payload: unknown): void {
    this.effects.push({ type: 'set_timer', timer, delay_ms, name, payload });
  }

  cancelTimer(timer: string): void {
    this.effects.push({ type: 'cancel_timer', timer });
  }

  io(adapter: string, operation: string, input: unknown, name: string, carry?: unknown): void {
    this.effects.push({ type: 'io', adapter, operation, input, name, carry });
  }

  compute(task: string, input: unknown, name: string, carry?: unknown): void {
    this.effects.push({ type: 'compute', task, input, name, carry });
  }

  #claimAnswer(): boolean {
    if (this.#token === NO_REPLY_TOKEN) return false;
    if (this.#answered || this.held) throw new TypeError('a message is answered once');
    this.#answered = true;
    return true;
  }
}
