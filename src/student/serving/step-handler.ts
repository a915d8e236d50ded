/**
 * Where server threads bring their steps: reads each, asks the student whether it is covered, and gives back an answer that is
 * ready for the wire, or the reason why there is none. Nothing that comes in here, and nothing that the student does,
 * gets further than a reason. The student's thread.
 *
 * A student of kind `exemplar` is asked and answers in one go. One of kind `http` waits for its service meanwhile, for
 * several steps at once.
 */

import type { Hash } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import type { NormalAnswer, NormalRequest } from '../../domain/turn.ts';
import { SHADOWED_ANSWERS } from '../../limits.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import { readNormalMessages } from '../../providers/messages/normal-turn.ts';
import { NormalReading, pairCalls } from '../../providers/normal-reading.ts';
import { normalizeTurn } from '../../providers/normal-turn.ts';
import { systemClock } from '../../std/clock.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { answersAgree } from '../model/agreement.ts';
import { kindOfAnswer } from '../model/answer-kind.ts';
import type { StudentAnswer, StudentDecision } from '../model/decision.ts';
import { digestStep, type StepDigest } from '../model/step.ts';
import { readStepExtras } from '../model/step-extras.ts';
import { isFitAnswer } from './answer-check.ts';
import { writeAnswer } from './answer-wire.ts';
import type { ClientMessage, DeclineReason, StepRequest, StudentMessage } from './protocol.ts';
import { endsWithUser, isValidRequest } from './request-rules.ts';
import { hashRequest, markAnswer, placeStep, type ServedRuns, type StepPlace } from './served-runs.ts';
import { UntranslatableStep } from './service-messages.ts';
import { ToolSchemas } from './tool-schemas.ts';

/** The student's core: `Student` of src/student/model. */
export interface StudentCore {
  decide(step: StepDigest, threshold: number, wanted: 'answer' | 'coverage'): StudentDecision;
}

/** The service of a student of kind `http`: `StudentService`. */
export interface AnsweringService {
  readonly model: string;
  ask(body: JsonObject, signal: AbortSignal): Promise<StudentAnswer>;
}

/** The watch over the student: `StudentWatch`. */
export interface StepWatch {
  readonly terms: { readonly valid_until_ms: number | null };
  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended';
  note(agent: string, kind: string, agreed: boolean): void;
}

/** Dollars a million tokens, by model. */
export type Prices = Readonly<Record<string, { readonly input: number; readonly output: number }>>;

export interface StepHandlerOptions {
  mode: 'on' | 'shadow';
  core: StudentCore;
  /** Largest score that is covered. */
  threshold: number;
  /** null: the core answers itself. */
  service: AnsweringService | null;
  prices: Prices;
  runs: ServedRuns;
  watch: StepWatch;
  /** Told of whatever was thrown, once in a while; never with anything of a request in it. */
  onError: (thrown: unknown) => void;
}

/** A step that was read. */
interface ReadStep {
  body: JsonObject;
  request: NormalRequest;
  place: StepPlace;
}

/** What is remembered of a step, in case that the server thread has changed its mind, and in shadow mode; nothing large. */
interface Handled {
  place: StepPlace | null;
  /** Of the answer that was given. */
  marks: string[];
  /** Ends the question to the service. */
  asking: AbortController | null;
  /** Shadow mode and audits: what would have been served, by whom, and to what. */
  shadow: { answer: StudentAnswer; agent: string; asked: Hash } | null;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const RESULT_ID = Buffer.from('"tool_use_id":');
/** Longest id that is looked for in a raw body, quotes and blanks before it included. */
const ID_BYTES = 300;

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
      if (body === null || !isValidRequest(body, '2023-06-01'))
        throw new Error('the step to warm up with is none');
      const { request } = readStep(body, { run_id: null, seq: null })!;
      core.decide(digestStep(request, readStepExtras(body, [])), threshold, 'answer');
      const answer: StudentAnswer = {
        content: [
          { type: 'text', text: `${at}` },
          { type: 'tool_call', id: '', name: 'look', input: { at: `${at}` } },
        ],
        stop_reason: 'tool_use',
        input_tokens: at,
        output_tokens: 1,
      };
      isFitAnswer(answer, request, body, this.#schemas);
      markAnswer(hashRequest(request), [], writeAnswer(answer, 'm', at % 2 === 0).call_ids.slice(0, at % 2));
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
        const entry: Handled = { place: null, marks: [], asking: null, shadow: null };
        handled.set(message.id, entry);
        this.#decide(message, entry, post);
        return;
      }
      case 'abandon': {
        const entry = handled.get(message.id);
        entry?.asking?.abort();
        runs.noteTaken(message.run_id, entry?.place?.mark ?? null);
        if (entry !== undefined) runs.forget(entry.marks);
        return;
      }
      case 'cancel':
        handled.get(message.id)?.asking?.abort();
        return;
      case 'taken':
        runs.noteTaken(message.run_id, null);
        return;
      case 'compare':
        this.#compare(message, handled.get(message.id), post);
        return;
    }
  }

  #decide(message: StepRequest, entry: Handled, post: Post): void {
    if (systemClock.monotonicMs() >= message.expires_at_ms) return;
    const { runs, core, threshold, service } = this.#options;
    const early = this.#refuseEarly(message);
    if (early !== null) {
      this.#decline(message, null, early, post);
      return;
    }
    const body = parseBody(message.body);
    if (body === null || !isValidRequest(body, message.api_version)) {
      this.#decline(message, null, 'bad_request', post);
      return;
    }
    const step = readStep(body, message);
    if (step === null) {
      this.#decline(message, null, 'unsupported', post);
      return;
    }
    entry.place = step.place;
    const known = runs.judge(step.place);
    if (known !== null || !endsWithUser(body)) {
      this.#decline(message, step, known ?? 'unsupported', post);
      return;
    }
    const digest = digestStep(step.request, readStepExtras(body, message.betas));
    const decision = core.decide(digest, threshold, service === null ? 'answer' : 'coverage');
    if (!decision.covered) this.#decline(message, step, decision.reason, post);
    else if (service !== null) void this.#askService(service, message, step, entry, decision.agent, post);
    else if (decision.answer === null) this.#decline(message, step, 'failed', post);
    else this.#give(message, step, entry, decision.answer, decision.agent, null, post);
  }

  /** What can be said before the body is parsed. */
  #refuseEarly({ run_id, body }: StepRequest): DeclineReason | null {
    const { runs, watch } = this.#options;
    const until = watch.terms.valid_until_ms;
    if (until !== null && systemClock.wallMs() >= until) return 'expired';
    if (run_id !== null && runs.isTaken(run_id)) return 'taken_over';
    const id = findLastResultId(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
    return id !== null && !runs.knows(id) ? 'unknown_run' : null;
  }

  async #askService(
    service: AnsweringService,
    message: StepRequest,
    step: ReadStep,
    entry: Handled,
    agent: string,
    post: Post,
  ): Promise<void> {
    const asking = new AbortController();
    entry.asking = asking;
    const leftMs = Math.max(0, message.expires_at_ms - systemClock.monotonicMs());
    const timer = setTimeout(() => asking.abort(), leftMs);
    try {
      if (step.request.response_schema !== null) throw new UntranslatableStep('a schema for the answer');
      const answer = await service.ask(step.body, asking.signal);
      // Whoever gave up has told its run what follows from that.
      if (!asking.signal.aborted) this.#give(message, step, entry, answer, agent, service.model, post);
    } catch (thrown) {
      if (asking.signal.aborted) return;
      const isPlain = thrown instanceof UntranslatableStep;
      if (!isPlain) this.#options.onError(thrown);
      this.#decline(message, step, isPlain ? 'unsupported' : 'failed', post);
    } finally {
      clearTimeout(timer);
      entry.asking = null;
    }
  }

  /** An answer goes out, if it may and is not audited. @param servedBy the model that a service answered with */
  #give(
    message: StepRequest,
    step: ReadStep,
    entry: Handled,
    answer: StudentAnswer,
    agent: string,
    servedBy: string | null,
    post: Post,
  ): void {
    const { mode, runs, watch } = this.#options;
    if (!isFitAnswer(answer, step.request, step.body, this.#schemas)) {
      // The core has judged its own answer fit; a service is expected to go wrong now and then.
      this.#decline(message, step, servedBy === null ? 'invalid' : 'failed', post);
      return;
    }
    const verdict = watch.judge(agent, kindOfAnswer(answer.content));
    if (verdict === 'suspended') {
      this.#decline(message, step, 'suspended', post);
      return;
    }
    if (mode === 'shadow' || verdict === 'audit') {
      entry.shadow = { answer, agent, asked: hashRequest(step.request) };
      post({ type: mode === 'shadow' ? 'would_serve' : 'audit', id: message.id });
      return;
    }
    const model = String(step.body.model);
    const isStream = step.body.stream === true;
    const wire = writeAnswer(answer, model, isStream);
    post(
      {
        type: 'served',
        id: message.id,
        body: wire.body,
        is_stream: isStream,
        request_id: wire.request_id,
        input_tokens: answer.input_tokens,
        output_tokens: answer.output_tokens,
        saved_micro_usd: this.#price(answer, model, servedBy),
      },
      [wire.body.buffer],
    );
    // The conversation is hashed when the answer is on its way.
    const asked = hashRequest(step.request);
    entry.marks = markAnswer(asked, answer.content, wire.call_ids);
    runs.noteServed(message.run_id, entry.marks);
  }

  #decline(message: StepRequest, step: ReadStep | null, reason: DeclineReason, post: Post): void {
    post({ type: 'declined', id: message.id, reason });
    this.#options.runs.noteTaken(message.run_id, step?.place.mark ?? null);
  }

  /**
   * Holds the two answers against each other. The run goes on as if the student's had been served; after an audit, only
   * when both said the same.
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
    const theirs = readUpstreamAnswer(message);
    if (theirs === null) return;
    const callIds = theirs.content.flatMap((block) => (block.type === 'tool_call' ? [block.id] : []));
    const agreed = agreeWith(mine, theirs);
    if (agreed || mode === 'shadow')
      runs.noteServed(entry.place.run_id, markAnswer(asked, theirs.content, callIds));
    else runs.noteTaken(entry.place.run_id, entry.place.mark);
    watch.note(agent, kindOfAnswer(mine.content), agreed);
    post({ type: 'compared', agreed });
  }

  /** Millionths of a dollar: dollars a million tokens, times tokens. */
  #price(answer: StudentAnswer, model: string, servedBy: string | null): number | null {
    const { prices } = this.#options;
    const cost = costOf(answer, findPrice(prices, model));
    if (cost === null || servedBy === null) return cost;
    const own = costOf(answer, findPrice(prices, servedBy));
    return own === null ? null : cost - own;
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
function readStep(body: JsonObject, { run_id, seq }: Pick<StepRequest, 'run_id' | 'seq'>): ReadStep | null {
  const reading = new NormalReading();
  const request = readNormalMessages(body, reading);
  if (reading.isOver) return null;
  pairCalls(request.messages, []);
  return { body, request, place: placeStep(request, run_id, seq) };
}

/**
 * The call that the last result of a raw body answers. Within a text the quotes would be escaped, so what is found is a
 * field; it may stand in a tool's input all the same, which costs no more than that the upstream serves.
 */
export function findLastResultId(body: Buffer): string | null {
  // Forwards first: that is quick where there is none, and backwards is where the last one is near the end.
  if (!body.includes(RESULT_ID)) return null;
  const at = body.lastIndexOf(RESULT_ID);
  const from = at + RESULT_ID.length;
  const found = /^\s*"([\w-]+)"/.exec(body.toString('latin1', from, from + ID_BYTES));
  return found?.[1] ?? null;
}

/** @returns null for an answer that is no whole one of text and calls */
function readUpstreamAnswer({
  status,
  headers,
  body,
}: Extract<ClientMessage, { type: 'compare' }>): NormalAnswer | null {
  if (status !== 200) return null;
  const turn = normalizeTurn({
    shape: 'messages',
    path: '/v1/messages',
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

/** A model's price: its own, or that of the longest name that it goes on from (`name` for `name-20250514`). */
export function findPrice(prices: Prices, model: string): { input: number; output: number } | null {
  let best = '';
  for (const name of Object.keys(prices)) {
    const isIts = model === name || (model.startsWith(name) && /^[-@:]/.test(model.slice(name.length)));
    if (isIts && name.length > best.length) best = name;
  }
  return best === '' ? null : prices[best]!;
}

function costOf(answer: StudentAnswer, price: { input: number; output: number } | null): number | null {
  if (price === null) return null;
  return answer.input_tokens * price.input + answer.output_tokens * price.output;
}
