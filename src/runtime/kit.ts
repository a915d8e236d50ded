/**
 * Runs one actor without threads, links or clocks: the test passes messages, time and outcomes, and reads the
 * effects. For tests of behaviours only. Any thread.
 *
 * To find mistakes, it is stricter than the host: payloads, events and snapshots go through msgpack, and events are
 * replayed on demand and must lead to the live state.
 */
import { isDeepStrictEqual } from 'node:util';
import { Packr } from 'msgpackr';
import { packPayload } from './link.ts';
import type { AnyBehaviour, Effect, Outcome, Refusal, ReplyToken } from './protocol.ts';
import { NO_REPLY_TOKEN, Recorder } from './recorder.ts';

/** The result of an ask. `held`: the actor keeps the answer for later; read it with `answerTo(token)`. */
export type KitAnswer =
  | { type: 'reply'; value: unknown }
  | { type: 'refuse'; error: Refusal }
  | { type: 'held'; token: ReplyToken }
  | { type: 'none' };

/** Effects of one kind. */
export type EffectOf<T extends Effect['type']> = Extract<Effect, { type: T }>;

interface KitTimer {
  at_ms: number;
  /** Order in which timers were set, for timers due at the same time. */
  order: number;
  name: string;
  payload: unknown;
}

interface KitOptions {
  key?: string;
  /** Wall-clock time at the start, milliseconds since the epoch. */
  now_ms?: number;
}

/** An actor under test. An exception of a handler is thrown here, and none of its effects is performed. */
export class ActorKit {
  readonly #behaviour: AnyBehaviour;
  readonly #key: string;
  readonly #packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });
  readonly #timers = new Map<string, KitTimer>();
  readonly #answers = new Map<ReplyToken, KitAnswer>();
  readonly #events: Uint8Array[] = [];
  #effects: Effect[] = [];
  #wallMs: number;
  #monotonicMs = 0;
  #nextToken = 1;
  #timerOrder = 0;
  /** The state that handlers get. */
  state: unknown;

  constructor(behaviour: AnyBehaviour, options: KitOptions = {}) {
    this.#behaviour = behaviour;
    this.#key = options.key ?? 'test';
    this.#wallMs = options.now_ms ?? 0;
    this.state = behaviour.initial(this.#key);
    this.#activate();
  }

  get now_ms(): number {
    return this.#wallMs;
  }

  /** Sets the wall clock, possibly back. Durations are not affected, because they use the monotonic clock. */
  setWallClock(ms: number): void {
    this.#wallMs = ms;
  }

  /** Sends a message without an answer. */
  tell(name: string, payload: unknown, bodies: readonly Uint8Array[] = []): void {
    this.#handle('handlers', name, payload, bodies, NO_REPLY_TOKEN);
  }

  /** Sends a message with an answer. */
  ask(name: string, payload: unknown, bodies: readonly Uint8Array[] = []): KitAnswer {
    const token = this.#nextToken++;
    const held = this.#handle('handlers', name, payload, bodies, token);
    if (held && !this.#answers.has(token)) return { type: 'held', token };
    return this.answerTo(token);
  }

  /** Returns the answer to the ask with this token; `none` until the actor gives the answer. */
  answerTo(token: ReplyToken): KitAnswer {
    return this.#answers.get(token) ?? { type: 'none' };
  }

  /** Returns all effects since the last call, including answers and timers, in order. */
  takeEffects(): Effect[] {
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  /** Returns the effects of one type since the last call; other effects are dropped. */
  takeEffectsOf<T extends Effect['type']>(type: T): EffectOf<T>[] {
    return this.takeEffects().filter((effect): effect is EffectOf<T> => effect.type === type);
  }

  /** Advances the time; timers fire in the order in which they are due. */
  advance(ms: number): void {
    const until = this.#monotonicMs + ms;
    for (;;) {
      const due = [...this.#timers]
        .filter(([, timer]) => timer.at_ms <= until)
        .sort(([, a], [, b]) => a.at_ms - b.at_ms || a.order - b.order)[0];
      if (due === undefined) break;
      const [id, timer] = due;
      this.#timers.delete(id);
      this.#moveTo(Math.max(timer.at_ms, this.#monotonicMs));
      this.#handle('internal', timer.name, timer.payload, [], NO_REPLY_TOKEN);
    }
    this.#moveTo(until);
  }

  /** Returns the pending timers: name → milliseconds until the timer fires. */
  timers(): Record<string, number> {
    const left: Record<string, number> = {};
    for (const [id, timer] of this.#timers) left[id] = timer.at_ms - this.#monotonicMs;
    return left;
  }

  /** Delivers the outcome of an `io` or `compute` effect. */
  finish(effect: EffectOf<'io'> | EffectOf<'compute'>, value: unknown): void {
    this.#settle(effect, { ok: true, value, carry: effect.carry });
  }

  /** Makes an `io` or `compute` effect fail. */
  fail(effect: EffectOf<'io'> | EffectOf<'compute'>, error: Refusal): void {
    this.#settle(effect, { ok: false, error, carry: effect.carry });
  }

  /** Number of events recorded so far. */
  get eventCount(): number {
    return this.#events.length;
  }

  /**
   * Simulates a crash of the thread, or a take-over of the actor by another process. Timers and kept answers are lost.
   * A persistent actor is restored from its events, any other actor starts with its initial state.
   * @throws Error if the events do not lead to the live state, or if a snapshot does not restore the state
   */
  restart(): void {
    const { persistence } = this.#behaviour;
    const live = this.state;
    let state = this.#behaviour.initial(this.#key);
    if (persistence !== undefined) {
      for (const event of this.#events) {
        const decoded = this.#packr.unpack(event);
        state = persistence.apply(state, persistence.decodeEvent?.(decoded) ?? decoded);
      }
      if (!isDeepStrictEqual(state, live)) throw new Error('the events do not lead to the live state');
      const { encode, decode, version } = persistence.snapshot;
      state = decode(this.#copy(encode(state)), version);
      if (!isDeepStrictEqual(state, live)) throw new Error('the snapshot does not give the state back');
    }
    this.state = state;
    this.#timers.clear();
    this.#answers.clear();
    this.#activate();
  }

  #activate(): void {
    const { activated } = this.#behaviour;
    if (activated === undefined) return;
    const recorder = this.#record([], NO_REPLY_TOKEN);
    activated.call(this.#behaviour, this.state, recorder as never);
    this.#perform(recorder);
  }

  /**
   * Handles one message, and performs its effects.
   * @returns whether the answer was kept for later
   */
  #handle(
    door: 'handlers' | 'internal',
    name: string,
    payload: unknown,
    bodies: readonly Uint8Array[],
    token: ReplyToken,
  ): boolean {
    const handlers = this.#behaviour[door];
    if (!Object.hasOwn(handlers, name)) throw new TypeError(`${this.#behaviour.kind} has no ${name}`);
    const recorder = this.#record(bodies, token);
    // Outcomes and timers never leave their thread; all other messages have crossed a link.
    handlers[name]!(this.state, door === 'handlers' ? this.#copy(payload) : payload, recorder as never);
    if (recorder.unanswered) throw new Error(`${this.#behaviour.kind} ${name}: the handler gave no answer`);
    this.#perform(recorder);
    return recorder.held;
  }

  #record(bodies: readonly Uint8Array[], token: ReplyToken): Recorder {
    return new Recorder(this.#behaviour, this.state, {
      self: { kind: this.#behaviour.kind, key: this.#key },
      now_ms: this.#wallMs,
      monotonic_ms: this.#monotonicMs,
      bodies,
      token,
    });
  }

  #perform(recorder: Recorder): void {
    const { ends, encodeEvent } = this.#behaviour.persistence ?? {};
    for (const effect of recorder.effects) {
      if (effect.type !== 'persist') continue;
      this.#events.push(Uint8Array.from(this.#packr.pack(encodeEvent?.(effect.event) ?? effect.event)));
      if (ends?.(effect.event)) this.#events.length = 0;
    }
    if (recorder.persisted > 0) this.state = recorder.state;
    for (const effect of recorder.effects) {
      if (effect.type === 'reply') {
        this.#answer(effect.token, { type: 'reply', value: this.#copy(effect.value) });
      } else if (effect.type === 'refuse') {
        this.#answer(effect.token, { type: 'refuse', error: effect.error });
      } else if (effect.type === 'set_timer') {
        const { timer, delay_ms, name, payload } = effect;
        const at_ms = this.#monotonicMs + Math.max(0, delay_ms);
        this.#timers.set(timer, { at_ms, order: this.#timerOrder++, name, payload });
      } else if (effect.type === 'cancel_timer') {
        this.#timers.delete(effect.timer);
      }
    }
    this.#effects.push(...recorder.effects);
  }

  #answer(token: ReplyToken, answer: KitAnswer): void {
    if (this.#answers.has(token)) throw new Error(`token ${token} was answered twice`);
    this.#answers.set(token, answer);
  }

  #settle(effect: EffectOf<'io'> | EffectOf<'compute'>, outcome: Outcome<unknown, unknown>): void {
    this.#handle('internal', effect.name, outcome, [], NO_REPLY_TOKEN);
  }

  #moveTo(ms: number): void {
    this.#wallMs += ms - this.#monotonicMs;
    this.#monotonicMs = ms;
  }

  #copy(value: unknown): unknown {
    return this.#packr.unpack(this.#packr.pack(packPayload(value)));
  }
}
