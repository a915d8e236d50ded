/**
 * A step, from its arrival until it is decided whether the student or the upstream serves it. It collects the body and
 * asks the student. Then it sends the student's answer to the client, or forwards the exchange unchanged. In shadow
 * mode it forwards the step as soon as the body has arrived, and also asks the student. Server threads.
 *
 * The wait ends with one of these events: the student's answer, the deadline, the end of the
 * student's thread, a body that is too long or too slow, or the client's disconnection. Each of
 * them may happen at most once, in any order. In each case the captured times are measured from the
 * beginning of the exchange.
 */

import { DECISION_FIELD } from '../../domain/exchange.ts';
import { type HttpStream, joinLines } from '../../http/http-stream.ts';
import type { RequestClass } from '../../providers/classify.ts';
import type {
  DeclineReason,
  FallbackReason,
  ServedStep,
  StepFinding,
} from '../../student/serving/protocol.ts';
import { type BegunExchange, describeExchange, Forward, type ForwardContext } from '../forward.ts';
import type { Destination } from '../route-table.ts';
import { writeDecision } from './recorded-decision.ts';
import type { RelegationLedger } from './relegation-ledger.ts';
import { type ShadowedAnswer, ShadowedForward } from './shadowed-forward.ts';
import type { ReadStepHead } from './step-head.ts';
import type { SentStep, StepWaiter, StudentLink } from './student-link.ts';

/** Maximum body of a step that the student may answer. Steps with larger bodies are forwarded immediately. */
export const STEP_BODY_BYTES = 2 << 20;
/** How long a step waits for the rest of its body. After that, the body is forwarded as it arrives. */
const STEP_BODY_WAIT_MS = 1_000;

/** The header that marks an answer of the student. It is not added to an upstream's answer. */
const SERVED_BY_HEADER = 'x-svc-served-by';

/** `shadow`: the upstream serves every step; the student's answer is compared with it. */
export type RelegationMode = 'on' | 'shadow';

/** What an exchange uses of the relegation of its thread. */
export interface RelegationDesk {
  readonly mode: RelegationMode;
  readonly link: StudentLink;
  readonly ledger: RelegationLedger;
  /**
   * Reserves memory for body bytes that wait for the rest of their body.
   * @returns false when there is no room
   */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

export class RelegatedExchange implements StepWaiter {
  readonly #relegation: RelegationDesk;
  readonly #context: ForwardContext;
  readonly #stream: HttpStream;
  readonly #destination: Destination;
  readonly #requestClass: RequestClass;
  readonly #head: ReadStepHead;
  readonly #onStatus: (status: number) => void;
  readonly #begun: BegunExchange;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Bytes reserved from the budget of incomplete bodies. */
  #reserved = 0;
  /** The timer for the rest of the body, later for the student's answer. */
  #timer: NodeJS.Timeout | null = null;
  #sent: SentStep | null = null;
  /** Whether the upstream serves the step for comparison, although the student would have served it. */
  #isAudited = false;
  /** Shadow mode and audits: whether the student has an answer to compare. */
  #wouldServe = false;
  #shadowed: ShadowedAnswer | null = null;
  #status = 0;
  #responseHeaders: string[] = [];
  #firstByteMs: number | null = null;
  /** The decision in the form that capture keeps with the exchange. */
  #decision: string | null = null;
  /** The exchange with the upstream; null while it is not forwarded. */
  #forwarded: Forward | null = null;

  /** @param onStatus receives the status of the upstream's answer */
  constructor(
    relegation: RelegationDesk,
    context: ForwardContext,
    stream: HttpStream,
    destination: Destination,
    requestClass: RequestClass,
    head: ReadStepHead,
    onStatus: (status: number) => void,
  ) {
    this.#onStatus = onStatus;
    this.#relegation = relegation;
    this.#context = context;
    this.#stream = stream;
    this.#destination = destination;
    this.#requestClass = requestClass;
    this.#head = head;
    this.#begun = {
      tee: context.capture?.begin() ?? null,
      at: performance.now(),
      at_ms: Date.now(),
    };
  }

  /** Collects the body, asks the student, and serves or forwards the step. */
  start(): void {
    const stream = this.#stream;
    const received = stream.received;
    stream.received = [];
    stream.events = { onBody: this.#onBody, onClosed: this.#onClosed };
    if (!stream.bodyComplete) {
      this.#timer = setTimeout(() => this.#takeOver('slow_body'), STEP_BODY_WAIT_MS);
    }
    for (const chunk of received) {
      if (!this.#keep(chunk)) return;
    }
    if (stream.bodyComplete) this.#ask();
  }

  onServed(step: ServedStep): void {
    this.#stopWaiting();
    this.#relegation.ledger.served(step);
    this.#note('served', step.finding ?? null);
    const body = Buffer.from(step.body.buffer, step.body.byteOffset, step.body.byteLength);
    const { tee } = this.#begun;
    if (tee !== null) {
      for (const chunk of this.#chunks) tee.add(tee.request, chunk);
      tee.add(tee.response, body);
    }
    this.#chunks = [];
    this.#status = 200;
    this.#firstByteMs = performance.now() - this.#begun.at;
    this.#responseHeaders = [
      'Content-Type',
      step.is_stream ? 'text/event-stream; charset=utf-8' : 'application/json',
      'Cache-Control',
      'no-cache',
      this.#head.wire === 'messages' ? 'request-id' : 'x-request-id',
      step.request_id,
      SERVED_BY_HEADER,
      'student',
    ];
    const stream = this.#stream;
    const lines = joinLines(this.#responseHeaders);
    stream.events = { onClosed: (aborted) => this.#record(aborted) };
    stream.writeHead(
      '200 OK',
      lines,
      step.is_stream ? { kind: 'chunked' } : { kind: 'length', bytes: body.length },
    );
    stream.write(body);
    stream.end();
  }

  onDeclined(reason: DeclineReason, finding: StepFinding | null): void {
    this.#fallBack(reason, finding);
  }

  onFailed(reason: 'crashed' | 'failed'): void {
    // Report the run again, because the thread that replaces a crashed one does not know this step.
    if (this.#head.run_id !== null) this.#relegation.link.noteTaken(this.#head.run_id);
    this.#fallBack(reason);
  }

  onWouldServe(finding: StepFinding | null): void {
    this.#stopWaiting();
    this.#relegation.ledger.wouldServe();
    this.#note('would_serve', finding);
    this.#wouldServe = true;
    this.#compare();
  }

  onAudited(finding: StepFinding | null): void {
    if (this.#relegation.mode === 'shadow') {
      this.#fallBack('failed');
      return;
    }
    this.#stopWaiting();
    this.#relegation.ledger.audited();
    this.#note('audit', finding);
    this.#isAudited = true;
    this.#wouldServe = true;
    this.#forward();
  }

  readonly #onBody = (chunk: Buffer, isLast: boolean): void => {
    if (!this.#keep(chunk)) return;
    if (isLast) this.#ask();
  };

  /**
   * Keeps a piece of the body.
   * @returns false when the body is too large, or too many bytes are waiting: then the exchange was forwarded
   */
  #keep(chunk: Buffer): boolean {
    if (chunk.length > 0) this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > STEP_BODY_BYTES) {
      this.#takeOver('too_large');
      return false;
    }
    if (this.#stream.bodyComplete) return true;
    if (!this.#relegation.reserve(chunk.length)) {
      this.#takeOver('busy');
      return false;
    }
    this.#reserved += chunk.length;
    return true;
  }

  #ask(): void {
    this.#stopWaiting();
    const { link, mode } = this.#relegation;
    const { wire, run_id, session_id, seq, betas, api_version, origin } = this.#head;
    // Copy the body, because the chunks are passed on to capture and perhaps to the upstream.
    const body = new Uint8Array(this.#bytes);
    let at = 0;
    for (const chunk of this.#chunks) {
      body.set(chunk, at);
      at += chunk.length;
    }
    this.#sent = link.send({ wire, run_id, session_id, seq, betas, api_version, origin }, body, this);
    if (this.#sent === null) {
      this.#takeOver(link.hindrance);
      return;
    }
    this.#timer = setTimeout(() => {
      this.#sent?.abandon();
      this.#fallBack('timeout');
    }, link.timeout_ms);
    if (mode === 'shadow') this.#forward();
  }

  /**
   * Forwards a step about which the student was not asked, and reports to the student that the
   * upstream serves the run.
   */
  #takeOver(reason: FallbackReason): void {
    this.#stopWaiting();
    if (this.#head.run_id !== null) this.#relegation.link.noteTaken(this.#head.run_id);
    this.#relegation.ledger.fallback(reason);
    this.#note(reason, null);
    this.#forward();
  }

  #fallBack(reason: FallbackReason, finding: StepFinding | null = null): void {
    this.#stopWaiting();
    this.#relegation.ledger.fallback(reason);
    this.#note(reason, finding);
    if (this.#relegation.mode === 'on') this.#forward();
  }

  /** Keeps the decision for capture; only the first call counts. */
  #note(decision: FallbackReason | 'served' | 'would_serve', finding: StepFinding | null): void {
    if (this.#begun.tee === null || this.#decision !== null) return;
    this.#decision = writeDecision(decision, this.#sent?.student_version ?? null, finding);
    this.#forwarded?.noteDecision(this.#decision);
  }

  /**
   * Forwards the exchange like any other. In shadow mode and in an audit, the answer is also collected for
   * the comparison.
   */
  #forward(): void {
    const stream = this.#stream;
    stream.received = this.#chunks;
    this.#chunks = [];
    const context = this.#context;
    const forward =
      this.#sent !== null && (this.#isAudited || this.#relegation.mode === 'shadow')
        ? new ShadowedForward(
            context,
            stream,
            this.#destination,
            this.#requestClass,
            this.#begun,
            (answer) => {
              this.#shadowed = answer;
              this.#compare();
            },
          )
        : new Forward(context, stream, this.#destination, this.#requestClass, this.#begun);
    forward.onStatus = this.#onStatus;
    if (this.#decision === null) forward.awaitsDecision = this.#begun.tee !== null;
    else forward.noteDecision(this.#decision);
    this.#forwarded = forward;
    forward.start();
  }

  #compare(): void {
    const answer = this.#shadowed;
    if (!this.#wouldServe || answer === null) return;
    this.#shadowed = null;
    this.#sent?.compare(answer.status, answer.headers, answer.body);
  }

  /** The client disconnected before the step was served. */
  readonly #onClosed = (aborted: boolean): void => {
    this.#stopWaiting();
    this.#sent?.cancel();
    const { tee } = this.#begun;
    if (tee !== null) for (const chunk of this.#chunks) tee.add(tee.request, chunk);
    this.#chunks = [];
    this.#record(aborted);
  };

  #stopWaiting(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#relegation.release(this.#reserved);
    this.#reserved = 0;
  }

  /** Gives capture an exchange that was not forwarded. */
  #record(aborted: boolean): void {
    const { tee, at, at_ms } = this.#begun;
    if (tee === null || this.#context.capture === null) return;
    const exchange = describeExchange(
      this.#context,
      this.#stream.head,
      this.#destination,
      this.#requestClass,
      tee,
      {
        run_id: this.#head.label,
        seq: this.#head.seq,
        status: this.#status,
        started_at_ms: at_ms,
        first_byte_ms: this.#firstByteMs,
        duration_ms: performance.now() - at,
        aborted,
        served_by: this.#status === 0 ? 'upstream' : 'student',
        request_form: { headers: this.#stream.head.headers, varying: [] },
        response_headers:
          this.#decision === null
            ? this.#responseHeaders
            : [...this.#responseHeaders, DECISION_FIELD, this.#decision],
      },
    );
    this.#context.capture.submit(tee, exchange);
  }
}
