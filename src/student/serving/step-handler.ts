/**
 * Handles the steps of server threads: reads each, asks the student whether it is covered, and returns an answer that is
 * ready for the wire, or the reason why there is none. Any failure here, of the input or of the student,
 * becomes such a reason. The student's thread.
 *
 * A student of kind `exemplar` answers at once. A student of kind `http` waits for its service, for
 * several steps at the same time.
 */

import type { Hash } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import { cacheReadOf, cacheWriteOf, findPrice, type Price, type Prices } from '../../domain/price.ts';
import type { NormalAnswer, NormalRequest } from '../../domain/turn.ts';
import { RELEGATED_ANSWERS, SHADOWED_ANSWERS } from '../../limits.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import { normalizeTurn } from '../../providers/normal-turn.ts';
import { systemClock } from '../../std/clock.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { answersAgree } from '../model/agreement.ts';
import { kindOfAnswer } from '../model/answer-kind.ts';
import type { StudentAnswer, StudentBlock, StudentDecision, WantedDecision } from '../model/decision.ts';
import type { StepDigest } from '../model/step.ts';
import { isFitAnswer } from './answer-check.ts';
import type {
  ClientMessage,
  DeclineReason,
  RelegationWire,
  StepFinding,
  StepRequest,
  StudentMessage,
} from './protocol.ts';
import {
  hashRequest,
  identifyRun,
  markAnswer,
  placeStep,
  type ServedRuns,
  type StepPlace,
} from './served-runs.ts';
import { readServiceStep, type ServiceStep, UntranslatableStep } from './service-step.ts';
import { digestWireStep, readWireRequest, WIRES } from './step-reading.ts';
import { TOO_LATE } from './student-service.ts';
import { ToolSchemas } from './tool-schemas.ts';
import type { Wire } from './wire.ts';

/** The student's core: `Student` of src/student/model. */
export interface StudentCore {
  decide(step: StepDigest, threshold: number, wanted: WantedDecision): StudentDecision;
  /** Whether answers of that kind are served at a step with that score. */
  serves(agent: string, kind: string, score: number | null): boolean;
  /** What a service's answer is judged as. */
  kindOf(agent: string, content: readonly StudentBlock[], request: NormalRequest): string;
}

/** The service of a student of kind `http`: `StudentService`. */
export interface AnsweringService {
  readonly model: string;
  /** Answers to one step that must agree. */
  readonly answers: number;
  /** What golden steps themselves would answer must agree, too. */
  readonly with_exemplar: boolean;
  ask(step: ServiceStep, signal: AbortSignal): Promise<StudentAnswer>;
}

/** The watch over the student: `StudentWatch`. */
export interface StepWatch {
  readonly terms: { readonly valid_until_ms: number | null };
  /** Whether the student serves this run, where it serves a share of them. */
  admits(identityOf: () => string): boolean;
  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended';
  note(agent: string, kind: string, agreed: boolean): void;
}

/** Where it is counted what the student did: `KeptLedger`. */
export interface StepLedger {
  add(
    agent: string,
    more: {
      served?: number;
      compared?: number;
      wrong?: number;
      input_tokens?: number;
      output_tokens?: number;
      saved_micro_usd?: number | null;
      late?: number;
      late_micro_usd?: number;
    },
  ): void;
}

export interface StepHandlerOptions {
  mode: 'on' | 'shadow';
  core: StudentCore;
  /** Largest score that is covered. */
  threshold: number;
  /** null: the core answers itself. */
  service: AnsweringService | null;
  prices: Prices;
  /** Keeps a run with the upstream once it has served a step of it; null: each step is judged by itself. */
  runs: ServedRuns | null;
  watch: StepWatch;
  /** Left out: nothing is counted. */
  ledger?: StepLedger;
  /** Told of whatever was thrown, once in a while; never with anything of a request in it. */
  onError: (thrown: unknown) => void;
}

/** A step that was read. */
interface ReadStep {
  wire: Wire;
  body: JsonObject;
  request: NormalRequest;
  place: StepPlace;
}

/** What is remembered of a step, in case that the server thread has changed its mind, and in shadow mode; nothing large. */
interface Handled {
  wire: RelegationWire;
  place: StepPlace | null;
  /** Of the answer that was given. */
  marks: string[];
  /** As it stands in the ledger. */
  counted: ({ agent: string } & Parameters<StepLedger['add']>[1]) | null;
  /** Ends the question to the service. */
  asking: AbortController | null;
  /** Shadow mode and audits: what would have been served, by whom, and, where runs are kept, to what. */
  shadow: { answer: StudentAnswer; agent: string; asked: Hash | null } | null;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** Longest id that is looked for in a raw body, quotes and blanks before it included. */
const ID_BYTES = 300;

const WARM_UP_HEAD = { betas: [], api_version: '2023-06-01', origin: '' } as const;
const WARM_UP_STEPS = 200;
const WARM_UP_MS = 800;
const WARM_UP_BODY = JSON.stringify({
  model: 'm',
  max_tokens: 1_000,
  system: 'Some words about what is to be done, and how. And some more of them.',
  tools: [{ name: 'look', input_schema: { type: 'object', properties: { at: { type: 'string' } } } }],
  messages: [
    { role: 'user', content: 'Look at # and at all that belongs to it, please.' },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'toolu_#', name: 'look', input: { at: '#' } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'toolu_#', content: '{"at":"#","seen":["a","b",{"n":#}]}' },
      ],
    },
  ],
});

export class StepHandler {
  readonly #options: StepHandlerOptions;
  readonly #schemas = new ToolSchemas();
  /** Answers of the student by the ids of their calls: whose they were, and what of their input a cache would hold. */
  readonly #given = new RecentMap<string, { agent: string; cached_tokens: number }>(RELEGATED_ANSWERS);

  constructor(options: StepHandlerOptions) {
    this.#options = options;
  }

  /**
   * Runs a step through everything but its end, again and again: a thread that has just started is a hundred times
   * slower than it will be, and the first live steps must not pay for that.
   */
  warmUp(): void {
    const { core, threshold } = this.#options;
    const until = performance.now() + WARM_UP_MS;
    for (let at = 0; at < WARM_UP_STEPS && performance.now() < until; at++) {
      const body = parseBody(new TextEncoder().encode(WARM_UP_BODY.replaceAll('#', String(at))));
      const wire = WIRES.messages;
      if (body === null || wire.findBreaches(body, WARM_UP_HEAD).length > 0)
        throw new Error('the step to warm up with is none');
      const { request } = readStep(wire, body, { run_id: null, seq: null })!;
      core.decide(digestWireStep(wire, request, body, WARM_UP_HEAD, null), threshold, 'answer');
      const answer: StudentAnswer = {
        content: [
          { type: 'text', text: `${at}` },
          { type: 'tool_call', id: '', name: 'look', input: { at: `${at}` } },
        ],
        stop_reason: 'tool_use',
        input_tokens: at,
        output_tokens: 1,
      };
      isFitAnswer(answer, request, { wire, body }, this.#schemas);
      const given = wire.writeAnswer(answer, { ...body, stream: at % 2 === 0 });
      markAnswer(hashRequest(request), [], given.call_ids.slice(0, at % 2));
    }
  }

  /** Serves the steps that come in by this port. */
  connect(port: MessagePort): void {
    const handled = new RecentMap<number, Handled>(SHADOWED_ANSWERS);
    const post = (message: StudentMessage, transfer: ArrayBuffer[] = []) =>
      port.postMessage(message, transfer);
    port.on('message', (message: ClientMessage) => {
      try {
        this.#receive(message, handled, post);
      } catch (thrown) {
        this.#options.onError(thrown);
        if (message.type === 'decide') this.#decline(message, null, 'failed', post);
      }
    });
  }

  #receive(message: ClientMessage, handled: RecentMap<number, Handled>, post: Post): void {
    const { runs } = this.#options;
    switch (message.type) {
      case 'decide': {
        const { wire } = message;
        const entry: Handled = { wire, place: null, marks: [], counted: null, asking: null, shadow: null };
        handled.set(message.id, entry);
        this.#decide(message, entry, post);
        return;
      }
      case 'abandon': {
        const entry = handled.get(message.id);
        entry?.asking?.abort();
        if (entry?.counted != null) this.#takeBack(entry.counted);
        runs?.noteTaken(message.run_id, entry?.place?.mark ?? null);
        if (entry !== undefined) runs?.forget(entry.marks);
        return;
      }
      case 'cancel':
        handled.get(message.id)?.asking?.abort();
        return;
      case 'taken':
        runs?.noteTaken(message.run_id, null);
        return;
      case 'compare':
        this.#compare(message, handled.get(message.id), post);
        return;
    }
  }

  #decide(message: StepRequest, entry: Handled, post: Post): void {
    if (systemClock.monotonicMs() >= message.expires_at_ms) return;
    const { runs, core, threshold, service, watch } = this.#options;
    const early = this.#refuseEarly(message);
    if (early !== null) {
      this.#decline(message, null, early, post);
      return;
    }
    const body = parseBody(message.body);
    if (body === null) {
      this.#decline(message, null, 'bad_request', post);
      return;
    }
    const wire = WIRES[message.wire];
    const step = readStep(wire, body, message);
    if (step === null) {
      this.#decline(message, null, 'unsupported', post);
      return;
    }
    entry.place = step.place;
    if (!watch.admits(() => identifyRun(step.request, message.session_id))) {
      this.#decline(message, step, 'canary', post);
      return;
    }
    const known = runs?.judge(step.place) ?? null;
    if (known !== null || !wire.endsWithUser(body)) {
      this.#decline(message, step, known ?? 'unsupported', post);
      return;
    }
    const digest = digestWireStep(wire, step.request, body, message, systemClock.wallMs());
    const decision = core.decide(digest, threshold, wantedOf(service));
    const finding: StepFinding = { agent: decision.agent || null, kind: null, score: decision.score };
    if (!decision.covered) this.#decline(message, step, decision.reason, post, finding);
    else if (service !== null)
      void this.#askService(
        service,
        message,
        step,
        entry,
        finding,
        service.with_exemplar ? decision.answer : null,
        post,
      );
    else if (decision.answer === null) this.#decline(message, step, 'failed', post, finding);
    else this.#give(message, step, entry, decision.answer, finding, null, post);
  }

  /** What can be said before the body is parsed. */
  #refuseEarly({ wire, run_id, body }: StepRequest): DeclineReason | null {
    const { runs, watch } = this.#options;
    const until = watch.terms.valid_until_ms;
    if (until !== null && systemClock.wallMs() >= until) return 'expired';
    if (runs === null) return null;
    if (run_id !== null && runs.isTaken(run_id)) return 'taken_over';
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const id = findLastResultId(bytes, RESULT_IDS[wire]);
    return id !== null && !runs.knows(id) ? 'unknown_run' : null;
  }

  /** @param own what golden steps themselves would answer, where that must agree */
  async #askService(
    service: AnsweringService,
    message: StepRequest,
    step: ReadStep,
    entry: Handled,
    finding: StepFinding,
    own: StudentAnswer | null,
    post: Post,
  ): Promise<void> {
    const asking = new AbortController();
    entry.asking = asking;
    const leftMs = Math.max(0, message.expires_at_ms - systemClock.monotonicMs());
    const timer = setTimeout(() => asking.abort(TOO_LATE), leftMs);
    try {
      const answers = await askTogether(service, readServiceStep(step), asking);
      // Whoever gave up has told its run what follows from that.
      if (asking.signal.aborted) return;
      const [answer, ...others] = own === null ? answers : [...answers, own];
      if (others.some((other) => !answersAgree(answer!, other))) {
        this.#decline(message, step, 'disagreement', post, finding);
        return;
      }
      this.#give(message, step, entry, answer!, finding, { model: service.model, answers }, post);
    } catch (thrown) {
      if (asking.signal.aborted && asking.signal.reason !== OTHER_FAILED) return;
      const isPlain = thrown instanceof UntranslatableStep;
      if (!isPlain) this.#options.onError(thrown);
      this.#decline(message, step, isPlain ? 'untranslatable' : 'failed', post, finding);
    } finally {
      clearTimeout(timer);
      entry.asking = null;
    }
  }

  /** An answer goes out, if it may and is not audited. @param service what it was asked; null: nothing */
  #give(
    message: StepRequest,
    step: ReadStep,
    entry: Handled,
    answer: StudentAnswer,
    found: StepFinding,
    service: AskedService | null,
    post: Post,
  ): void {
    const { mode, runs, core, watch } = this.#options;
    if (!isFitAnswer(answer, step.request, step, this.#schemas)) {
      // The core has judged its own answer fit; a service is expected to go wrong now and then.
      this.#decline(message, step, service === null ? 'invalid' : 'failed', post, found);
      return;
    }
    const agent = found.agent ?? '';
    const kind = kindOfAnswer(answer.content);
    const finding: StepFinding = { ...found, kind };
    // Operators and the watch know a kind by its tools alone.
    const judged = service === null ? kind : core.kindOf(agent, answer.content, step.request);
    if (!core.serves(agent, judged, found.score)) {
      this.#decline(message, step, 'unproven', post, finding);
      return;
    }
    const verdict = watch.judge(agent, kind);
    if (verdict === 'suspended') {
      this.#decline(message, step, 'suspended', post, finding);
      return;
    }
    if (mode === 'shadow' || verdict === 'audit') {
      if (mode === 'on') this.#noteLate(step);
      entry.shadow = { answer, agent, asked: runs === null ? null : hashRequest(step.request) };
      const type = mode === 'shadow' ? 'would_serve' : 'audit';
      post({ type, id: message.id, finding: { ...finding, answer: answer.content } });
      return;
    }
    const model = String(step.body.model);
    const saved_micro_usd = this.#price(answer, model, service);
    const wire = step.wire.writeAnswer(answer, step.body);
    post(
      {
        type: 'served',
        id: message.id,
        finding,
        body: wire.body,
        is_stream: step.body.stream === true,
        request_id: wire.request_id,
        input_tokens: answer.input_tokens,
        output_tokens: answer.output_tokens,
        saved_micro_usd,
      },
      [wire.body.buffer],
    );
    const { input_tokens, output_tokens, cache_read_tokens = 0, cache_write_tokens = 0 } = answer;
    const cached_tokens = cache_read_tokens + cache_write_tokens;
    for (const id of wire.call_ids) this.#given.set(id, { agent, cached_tokens });
    entry.counted = { agent, served: 1, input_tokens, output_tokens, saved_micro_usd };
    this.#options.ledger?.add(agent, entry.counted);
    if (runs === null) return;
    // The conversation is hashed when the answer is on its way.
    const asked = hashRequest(step.request);
    entry.marks = markAnswer(asked, answer.content, wire.call_ids);
    runs.noteServed(message.run_id, entry.marks);
  }

  /** It was served too late: nobody has got the answer. */
  #takeBack({ agent, ...counted }: NonNullable<Handled['counted']>): void {
    const { input_tokens = 0, output_tokens = 0, saved_micro_usd = null } = counted;
    this.#options.ledger?.add(agent, {
      served: -1,
      input_tokens: -input_tokens,
      output_tokens: -output_tokens,
      saved_micro_usd: saved_micro_usd === null ? null : -saved_micro_usd,
    });
  }

  #decline(
    message: StepRequest,
    step: ReadStep | null,
    reason: DeclineReason,
    post: Post,
    finding: StepFinding | null = null,
  ): void {
    post({ type: 'declined', id: message.id, reason, finding });
    if (step !== null) this.#noteLate(step);
    this.#options.runs?.noteTaken(message.run_id, step?.place.mark ?? null);
  }

  /**
   * Holds the two answers against each other. Where runs are kept, this one goes on as if the student's had been served; after
   * an audit, only when both said the same.
   */
  #compare(
    message: Extract<ClientMessage, { type: 'compare' }>,
    entry: Handled | undefined,
    post: Post,
  ): void {
    if (entry?.place == null || entry.shadow === null) return;
    const { mode, runs, watch } = this.#options;
    const { answer: mine, agent, asked } = entry.shadow;
    entry.shadow = null;
    const theirs = readUpstreamAnswer(entry.wire, message);
    if (theirs === null) return;
    const callIds = theirs.content.flatMap((block) => (block.type === 'tool_call' ? [block.id] : []));
    const agreed = agreeWith(mine, theirs);
    if (asked !== null && (agreed || mode === 'shadow'))
      runs?.noteServed(entry.place.run_id, markAnswer(asked, theirs.content, callIds));
    else runs?.noteTaken(entry.place.run_id, entry.place.mark);
    watch.note(agent, kindOfAnswer(mine.content), agreed);
    this.#options.ledger?.add(agent, { compared: 1, wrong: agreed ? 0 : 1 });
    post({ type: 'compared', agreed });
  }

  /** The upstream goes on with what the student has served: it writes to its cache what it would have read from there. */
  #noteLate(step: ReadStep): void {
    const { mark } = step.place;
    const given = mark === null ? undefined : this.#given.get(mark);
    if (given === undefined || this.#options.mode !== 'on') return;
    const price = findPrice(this.#options.prices, String(step.body.model));
    const late_micro_usd =
      price === null ? 0 : given.cached_tokens * (cacheWriteOf(price) - cacheReadOf(price));
    this.#options.ledger?.add(given.agent, { late: 1, late_micro_usd });
  }

  /** Millionths of a dollar: dollars a million tokens, times tokens. */
  #price(answer: StudentAnswer, model: string, service: AskedService | null): number | null {
    const { prices } = this.#options;
    const cost = costOf(answer, findPrice(prices, model));
    if (cost === null || service === null) return cost;
    const price = findPrice(prices, service.model);
    if (price === null) return null;
    return service.answers.reduce((left, one) => left - costOf(one, price)!, cost);
  }
}

/** What a service was asked for one step. */
interface AskedService {
  model: string;
  /** All of them agree. */
  answers: StudentAnswer[];
}

/** Why the other questions about a step end: one has failed. */
const OTHER_FAILED = 'another failed';

function wantedOf(service: AnsweringService | null): WantedDecision {
  if (service === null) return 'answer';
  return service.with_exemplar ? 'second' : 'coverage';
}

/** Asks as often as must agree, at the same time. @throws what the first that fails throws; the others end */
async function askTogether(
  service: AnsweringService,
  step: ServiceStep,
  asking: AbortController,
): Promise<StudentAnswer[]> {
  try {
    return await Promise.all(Array.from({ length: service.answers }, () => service.ask(step, asking.signal)));
  } catch (thrown) {
    if (service.answers > 1) asking.abort(OTHER_FAILED);
    throw thrown;
  }
}

type Post = (message: StudentMessage, transfer?: ArrayBuffer[]) => void;

/** @returns null for what is no JSON object in UTF-8 */
function parseBody(bytes: Uint8Array): JsonObject | null {
  try {
    const value = JSON.parse(decoder.decode(bytes)) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : null;
  } catch {
    return null;
  }
}

/** @returns null for one with more in it than is read */
function readStep(
  wire: Wire,
  body: JsonObject,
  { run_id, seq }: Pick<StepRequest, 'run_id' | 'seq'>,
): ReadStep | null {
  const request = readWireRequest(wire, body);
  return request === null ? null : { wire, body, request, place: placeStep(request, run_id, seq) };
}

const keyBytes = (wire: RelegationWire) => Buffer.from(`"${WIRES[wire].result_id_key}":`);
const RESULT_IDS: Readonly<Record<RelegationWire, Buffer>> = {
  messages: keyBytes('messages'),
  chat_completions: keyBytes('chat_completions'),
  responses: keyBytes('responses'),
};

/**
 * The call that the last result of a raw body answers. Within a text the quotes would be escaped, so what is found is a
 * field; it may stand in a tool's input all the same, which costs no more than that the upstream serves.
 */
export function findLastResultId(body: Buffer, key: Buffer = RESULT_IDS.messages): string | null {
  // Forwards first: that is quick where there is none, and backwards is where the last one is near the end.
  if (!body.includes(key)) return null;
  const at = body.lastIndexOf(key);
  const from = at + key.length;
  const found = /^\s*"([\w-]+)"/.exec(body.toString('latin1', from, from + ID_BYTES));
  return found?.[1] ?? null;
}

/** @returns null for an answer that is no whole one of text and calls */
function readUpstreamAnswer(
  wire: RelegationWire,
  { status, headers, body }: Extract<ClientMessage, { type: 'compare' }>,
): NormalAnswer | null {
  if (status !== 200) return null;
  const turn = normalizeTurn({
    shape: wire,
    path: '',
    status,
    request_headers: [],
    response_headers: headers,
    request_body: new Uint8Array(),
    response_body: body,
    truncated: false,
  });
  return turn === null || turn.answer.error !== null || turn.answer.stop_reason === null ? null : turn.answer;
}

function agreeWith(mine: StudentAnswer, theirs: NormalAnswer): boolean {
  const content = theirs.content.filter((block) => block.type === 'text' || block.type === 'tool_call');
  const isWhole = content.length === theirs.content.filter((block) => block.type !== 'thinking').length;
  return isWhole && theirs.stop_reason === mine.stop_reason && answersAgree(mine, { content });
}

function costOf(answer: StudentAnswer, price: Price | null): number | null {
  if (price === null) return null;
  const { input_tokens, output_tokens, cache_read_tokens: read = 0, cache_write_tokens: write = 0 } = answer;
  const fresh = Math.max(0, input_tokens - read - write);
  const cached = read * cacheReadOf(price) + write * cacheWriteOf(price);
  return fresh * price.input + cached + output_tokens * price.output;
}
