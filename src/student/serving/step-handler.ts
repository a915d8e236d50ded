/**
 * Handles the steps of server threads: reads each step, asks the student whether the step is covered, and replies with
 * an answer that is ready for the wire, or with the reason why the upstream must answer. Any failure, of the input or
 * of the student, becomes such a reason. A step whose time is over gets no reply. The student's thread.
 *
 * A student of kind `exemplar` answers at once. A student of kind `http` waits for its service, for several steps at
 * the same time.
 */

import type { Hash } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import type { Prices } from '../../domain/price.ts';
import type { NormalAnswer, NormalRequest, TurnBlock } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import { normalizeTurn } from '../../providers/normal-turn.ts';
import { systemClock } from '../../std/clock.ts';
import { parseExact } from '../../std/exact-json.ts';
import { RecentMap } from '../../std/recent-map.ts';
import { answersAgree } from '../model/agreement.ts';
import { kindOfAnswer } from '../model/answer-kind.ts';
import type {
  JudgeAnswer,
  StudentAnswer,
  StudentBlock,
  StudentDecision,
  WantedDecision,
} from '../model/decision.ts';
import type { StepDigest } from '../model/step.ts';
import { readAnswerBytes, readingsDiffer, type SaidBlocks } from './answer-bytes.ts';
import { isFitAnswer } from './answer-check.ts';
import { RELEGATED_ANSWERS } from './limits.ts';
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
import { type AskedService, type PricedStep, readPricedStep, StepSavings } from './step-savings.ts';
import { TOO_LATE } from './student-service.ts';
import { ToolSchemas } from './tool-schemas.ts';
import type { Wire } from './wire.ts';

/**
 * Maximum number of steps that are remembered for each server thread (`Handled`), in every mode. Beyond this number,
 * the oldest steps are forgotten: their answers are not compared, and their amounts stay in the ledger even if the
 * server thread withdraws the steps.
 */
const SHADOWED_ANSWERS = 1_000;

/** The student's core: `Student` of src/student/model. */
export interface StudentCore {
  decide(step: StepDigest, threshold: number, wanted: WantedDecision): StudentDecision;
  /** Whether answers of this kind are served at a step with this score. */
  serves(agent: string, kind: string, score: number | null): boolean;
  /** The kind by which a service's answer is judged. */
  kindOf(agent: string, content: readonly StudentBlock[], request: NormalRequest): string;
}

/** The service of a student of kind `http`: `StudentService`. */
export interface AnsweringService {
  readonly model: string;
  /** Number of the service's answers to one step that must agree. */
  readonly answers: number;
  /** Whether the answer derived from golden steps must agree, too. */
  readonly with_exemplar: boolean;
  ask(step: ServiceStep, signal: AbortSignal): Promise<StudentAnswer>;
}

/** The watch over the student: `StudentWatch`. */
interface StepWatch {
  readonly terms: { readonly valid_until_ms: number | null };
  /** Whether the run with this identity is in the share of runs that the student serves. */
  admits(identityOf: () => string): boolean;
  judge(agent: string, kind: string): 'serve' | 'audit' | 'suspended';
  note(agent: string, kind: string, agreed: boolean): void;
}

/** Counts what the student did: `KeptLedger`. */
interface StepLedger {
  add(
    agent: string,
    more: {
      served?: number;
      compared?: number;
      wrong?: number;
      input_tokens?: number;
      output_tokens?: number;
      saved_micro_usd?: number | null;
      unpriced?: number;
      guessed?: number;
      late?: number;
      late_micro_usd?: number;
    },
  ): void;
}

interface StepHandlerOptions {
  mode: 'on' | 'shadow';
  core: StudentCore;
  /** Largest score that is covered. */
  threshold: number;
  /** null when the core answers itself. */
  service: AnsweringService | null;
  prices: Prices;
  /** Keeps a run with the upstream once the upstream has served a step of it; null: each step is judged separately. */
  runs: ServedRuns | null;
  watch: StepWatch;
  /** Absent: nothing is counted. */
  ledger?: StepLedger;
  /** Receives thrown errors, at a limited rate. They never contain any part of a request. */
  onError: (thrown: unknown) => void;
}

/** A step that was read. */
interface ReadStep {
  wire: Wire;
  body: JsonObject;
  request: NormalRequest;
  place: StepPlace;
}

/**
 * What is remembered of a step for a comparison, and in case the server thread withdraws the step. SHADOWED_ANSWERS of
 * these objects exist for each server thread, so keep them small.
 */
interface Handled {
  wire: RelegationWire;
  place: StepPlace | null;
  /** Marks of the given answer. */
  marks: string[];
  /** Amounts entered in the ledger; null: the step was not served. */
  counted: ({ agent: string; step: PricedStep } & Parameters<StepLedger['add']>[1]) | null;
  /** Aborts the requests to the service; null: none is open. */
  asking: AbortController | null;
  /**
   * Shadow mode and audits: the answer that would have been served, its agent and, if sticky relegation is on, the
   * conversation that it answers.
   */
  shadow: {
    answer: StudentAnswer;
    agrees: JudgeAnswer;
    agent: string;
    form: string;
    asked: Hash | null;
  } | null;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** Maximum bytes of an id that is searched for in a raw body, including the quotes and blanks before it. */
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
  /** The agent of each answer that the student gave, by the answer's marks. */
  readonly #given = new RecentMap<string, string>(RELEGATED_ANSWERS);
  readonly #savings: StepSavings;

  constructor(options: StepHandlerOptions) {
    this.#options = options;
    this.#savings = new StepSavings(options.prices, () => systemClock.monotonicMs());
  }

  /**
   * Handles a step repeatedly without delivering the answer. A thread that has just started is a hundred times slower
   * than a warm one, and the first live steps should not be that slow.
   */
  warmUp(): void {
    const { core, threshold } = this.#options;
    const until = performance.now() + WARM_UP_MS;
    for (let at = 0; at < WARM_UP_STEPS && performance.now() < until; at++) {
      const body = parseBody(new TextEncoder().encode(WARM_UP_BODY.replaceAll('#', String(at))));
      const wire = WIRES.messages;
      if (body === null || wire.findBreaches(body, WARM_UP_HEAD).length > 0)
        throw new Error('the step to warm up with is invalid');
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

  /** Serves the steps that arrive on this port. */
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
    else this.#give(message, step, entry, decision.answer, finding, null, post, decision);
  }

  /** Finds a reason to decline a step that shows without parsing the body; null: none. */
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

  /**
   * Asks the service for its answers to a step, and passes on the first if all agree. Otherwise declines the step. The
   * time limit and a withdrawal end the requests without a reply.
   * @param own the answer derived from golden steps, which must agree, too; null: none
   */
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
      // The code that aborted the step has already recorded what follows for the run.
      if (asking.signal.aborted) return;
      const [answer, ...furtherAnswers] = own === null ? answers : [...answers, own];
      if (furtherAnswers.some((further) => !answersAgree(answer!, further))) {
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

  /**
   * Sends an answer to the server thread. Declines the step if the answer may not be served. In shadow mode and for an
   * audit, keeps the answer for a comparison with the upstream's.
   * @param service the request to the service; null: the core gave the answer
   * @param judging how to decide whether the upstream's answer is equivalent, and the form of answer whose evidence
   *   counts; without a form, the evidence of the kind counts
   */
  #give(
    message: StepRequest,
    step: ReadStep,
    entry: Handled,
    answer: StudentAnswer,
    found: StepFinding,
    service: AskedService | null,
    post: Post,
    judging: { agrees?: JudgeAnswer; form?: string } = {},
  ): void {
    const agrees = judging.agrees ?? ((other) => answersAgree(answer, { content: [...other] }));
    const { mode, runs, core, watch } = this.#options;
    if (!isFitAnswer(answer, step.request, step, this.#schemas)) {
      // The core has checked its own answers; a service is expected to err now and then.
      this.#decline(message, step, service === null ? 'invalid' : 'failed', post, found);
      return;
    }
    const agent = found.agent ?? '';
    const kind = kindOfAnswer(answer.content);
    const finding: StepFinding = { ...found, kind };
    const form = judging.form ?? kind;
    // The watch distinguishes a service's answers only by their tools.
    const judged = service === null ? form : core.kindOf(agent, answer.content, step.request);
    if (!core.serves(agent, judged, found.score)) {
      this.#decline(message, step, 'unproven', post, finding);
      return;
    }
    const verdict = watch.judge(agent, form);
    if (verdict === 'suspended') {
      this.#decline(message, step, 'suspended', post, finding);
      return;
    }
    if (mode === 'shadow' || verdict === 'audit') {
      entry.shadow = { answer, agrees, agent, form, asked: runs === null ? null : hashRequest(step.request) };
      const type = mode === 'shadow' ? 'would_serve' : 'audit';
      post({ type, id: message.id, finding: { ...finding, answer: JSON.stringify(answer.content) } });
      this.#noteLeft(step, agent);
      return;
    }
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
      },
      [wire.body.buffer],
    );
    for (const id of wire.call_ids) this.#given.set(id, agent);
    this.#countServed(step, entry, agent, answer, service);
    if (runs === null) return;
    // Hash the conversation after the answer was sent.
    const asked = hashRequest(step.request);
    entry.marks = markAnswer(asked, answer.content, wire.call_ids);
    runs.noteServed(message.run_id, entry.marks);
  }

  #countServed(
    { request, body, place }: ReadStep,
    entry: Handled,
    agent: string,
    answer: StudentAnswer,
    service: AskedService | null,
  ): void {
    const step = readPricedStep(request, body, !place.is_fresh);
    const saved = this.#savings.served(step, agent, answer, service);
    const { input_tokens, output_tokens } = answer;
    const price =
      saved === null
        ? { unpriced: 1, saved_micro_usd: null }
        : { guessed: saved.is_guessed ? 1 : 0, saved_micro_usd: saved.micro_usd };
    entry.counted = { agent, step, served: 1, input_tokens, output_tokens, ...price };
    this.#options.ledger?.add(agent, entry.counted);
  }

  /** Subtracts the amounts of a step whose answer came too late to reach the client. */
  #takeBack({ agent, step, ...counted }: NonNullable<Handled['counted']>): void {
    this.#savings.takenBack(step);
    const { input_tokens = 0, output_tokens = 0, saved_micro_usd = null } = counted;
    this.#options.ledger?.add(agent, {
      served: -1,
      input_tokens: -input_tokens,
      output_tokens: -output_tokens,
      saved_micro_usd: saved_micro_usd === null ? null : -saved_micro_usd,
      unpriced: -(counted.unpriced ?? 0),
      guessed: -(counted.guessed ?? 0),
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
    if (step !== null) this.#noteLeft(step, finding?.agent ?? null);
    this.#options.runs?.noteTaken(message.run_id, step?.place.mark ?? null);
  }

  /**
   * Compares the student's answer with the upstream's, and records the result in the watch and the ledger. An answer of
   * the upstream that cannot be read is not compared. Under sticky relegation, the run then continues in shadow mode as
   * if the student's answer had been served; after an audit, only if both answers agree.
   */
  #compare(
    message: Extract<ClientMessage, { type: 'compare' }>,
    entry: Handled | undefined,
    post: Post,
  ): void {
    if (entry?.place == null || entry.shadow === null) return;
    const { mode, runs, watch } = this.#options;
    const { answer: studentAnswer, agrees, agent, form, asked } = entry.shadow;
    entry.shadow = null;
    const upstreamAnswer = readUpstreamAnswer(entry.wire, message);
    if (upstreamAnswer === null) return;
    const callIds = upstreamAnswer.content.flatMap((block) => (block.type === 'tool_call' ? [block.id] : []));
    const upstreamContent = readAnswerBytes(entry.wire, message.headers, message.body);
    // Two readers read the same bytes. If their results differ, the upstream's answer is unknown.
    const reading_differs =
      upstreamContent !== null && readingsDiffer(upstreamAnswer.content, upstreamContent);
    const agreed =
      upstreamContent !== null &&
      !reading_differs &&
      agreeWith(studentAnswer, agrees, upstreamAnswer, upstreamContent);
    if (asked !== null && (agreed || mode === 'shadow'))
      runs?.noteServed(entry.place.run_id, markAnswer(asked, upstreamAnswer.content, callIds));
    else runs?.noteTaken(entry.place.run_id, entry.place.mark);
    watch.note(agent, form, agreed);
    this.#options.ledger?.add(agent, { compared: 1, wrong: agreed ? 0 : 1 });
    post({ type: 'compared', agreed, reading_differs });
  }

  /**
   * Notes a step that the upstream serves, in mode `on` only. If the student gave the previous answer, the step enters
   * the ledger as a late take-over, with its cost. Otherwise only its cost enters the ledger, if there is any.
   */
  #noteLeft({ request, body, place }: ReadStep, agent: string | null): void {
    const { mode, ledger } = this.#options;
    if (mode !== 'on' || ledger === undefined) return;
    const before = place.mark === null ? undefined : this.#given.get(place.mark);
    const owner = before ?? agent ?? '';
    const cold = this.#savings.leftToUpstream(readPricedStep(request, body, !place.is_fresh), owner);
    const late = before === undefined ? 0 : 1;
    if (late + cold.micro_usd > 0) ledger.add(owner, { late, late_micro_usd: cold.micro_usd });
  }
}

/** Abort reason for the other requests for a step when one request has failed. */
const OTHER_FAILED = 'another failed';

function wantedOf(service: AnsweringService | null): WantedDecision {
  if (service === null) return 'answer';
  return service.with_exemplar ? 'second' : 'coverage';
}

/**
 * Sends one request for each answer that must agree, concurrently.
 * @throws the first failure; the other requests are aborted
 */
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

/**
 * Parses a request's body.
 * @returns null for anything but a JSON object in UTF-8
 */
function parseBody(bytes: Uint8Array): JsonObject | null {
  try {
    const value = parseExact(decoder.decode(bytes));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : null;
  } catch {
    return null;
  }
}

/**
 * Reads a step.
 * @returns null for a step that exceeds the reading bounds
 */
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
 * Finds the id of the call that the last tool result in a raw body answers. A match is always a field, because quotes
 * inside a text are escaped. The field may still belong to a tool's input; the step then goes to the upstream, which
 * does no harm. @returns null if the body has no such field, or if the last such field has no valid id
 */
export function findLastResultId(body: Buffer, key: Buffer = RESULT_IDS.messages): string | null {
  // Search forwards first, which is fast when there is no match; then backwards, because the last match is near the
  // end.
  if (!body.includes(key)) return null;
  const at = body.lastIndexOf(key);
  const from = at + key.length;
  const found = /^\s*"([\w-]+)"/.exec(body.toString('latin1', from, from + ID_BYTES));
  return found?.[1] ?? null;
}

/**
 * Reads the upstream's answer for a comparison.
 * @returns null for a status other than 200, and for an answer that cannot be read, contains an error or has no stop
 *   reason
 */
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

/**
 * Whether the student's answer and the upstream's agree. @param content the upstream's answer, read from its bytes by
 * answer-bytes.ts, not by the reader of the rounds
 */
function agreeWith(
  studentAnswer: StudentAnswer,
  agrees: JudgeAnswer,
  upstreamAnswer: NormalAnswer,
  content: SaidBlocks,
): boolean {
  const isWhole = upstreamAnswer.content.every(({ type }) => GIVEN_BLOCKS.has(type));
  return isWhole && upstreamAnswer.stop_reason === studentAnswer.stop_reason && agrees(content);
}

/** The blocks that an upstream's answer may have: those that a student can give, and thinking. */
const GIVEN_BLOCKS: ReadonlySet<TurnBlock['type']> = new Set(['text', 'tool_call', 'thinking'] as const);
