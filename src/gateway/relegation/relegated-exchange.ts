/**
 * A step before it is decided who serves it. It collects the body and asks the student. Then it sends the student's
 * answer to the client, or forwards the exchange as if nothing had happened. In shadow mode it forwards the step as
 * soon as its body is there, and also asks the student. Server threads.
 *
 * What can end the wait, each at most once and in any order: the student's answer, the deadline, the student's end, a body
 * that is too long or too slow, the client's leaving. Capture counts the exchange from its beginning in each case.
 */

import { DECISION_FIELD } from '../../domain/exchange.ts';
import { type HttpStream, joinLines } from '../../http/http-stream.ts';
import { STEP_BODY_BYTES, STEP_BODY_WAIT_MS } from '../../limits.ts';
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

/** Marks an answer of the student; no answer of an upstream has it. */
const SERVED_BY_HEADER = 'x-svc-served-by';

/** `shadow`: the upstream serves every step; what the student would have said is compared with it. */
export type RelegationMode = 'on' | 'shadow';

/** What an exchange needs of relegation on its thread. */
export interface RelegationDesk {
  readonly mode: RelegationMode;
  readonly link: StudentLink;
  readonly ledger: RelegationLedger;
  /** Takes room for body bytes that wait for the others of their body. @returns false when there is none */
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
  /** Bytes taken from what bodies that are coming in may hold. */
  #reserved = 0;
  /** For the rest of the body, then for the student. */
  #timer: NodeJS.Timeout | null = null;
  #sent: SentStep | null = null;
  /** The student would have served it, and the upstream does, to be compared with it. */
  #isAudited = false;
  /** Shadow mode and audits: what is there of the two that are compared. */
  #wouldServe = false;
  #shadowed: ShadowedAnswer | null = null;
  #status = 0;
  #responseHeaders: string[] = [];
  #firstByteMs: number | null = null;
  /** What was decided, as it is kept with the exchange. */
  #decision: string | null = null;
  /** Where the step has gone on to the upstream. */
  #forwarded: Forward | null = null;

  /** @param onStatus told what the upstream answers, where it is asked */
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

  /** Collects the body, asks, serves or forwards. */
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
    // Whoever comes after a thread that ended does not know of this step.
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

  /** @returns false when the exchange is on its way to the upstream instead */
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
    // A copy, since the chunks go on to capture and perhaps to the upstream.
    const body = new Uint8Array(this.#bytes);
    let at = 0;
    for (const chunk of this.#chunks) {
      body.set(chunk, at);
      at += chunk.length;
    }
    this.#sent = link.send({ wire, run_id, session_id, seq, betas, api_version, origin }, body, this);
    if (this.#sent === null) {
      this.#takeOver(link.isReady ? 'busy' : 'loading');
      return;
    }
    this.#timer = setTimeout(() => {
      this.#sent?.abandon();
      this.#fallBack('timeout');
    }, link.timeout_ms);
    if (mode === 'shadow') this.#forward();
  }

  /** The student has not been asked: it is told that the run is the upstream's. */
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

  /** Keeps what was decided for capture; the first word counts. */
  #note(decision: FallbackReason | 'served' | 'would_serve', finding: StepFinding | null): void {
    if (this.#begun.tee === null || this.#decision !== null) return;
    this.#decision = writeDecision(decision, this.#sent?.student_version ?? null, finding);
    this.#forwarded?.noteDecision(this.#decision);
  }

  /** From here on the exchange is one like any other. */
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

  /** The client has left before anybody served it. */
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

  /** Hands an exchange that was not forwarded to capture. */
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
