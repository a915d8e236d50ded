/**
 * Relegation on a server thread: decides which requests are steps, asks the student about those that it may answer, and
 * forwards the others. A step without a credential is only counted. Requests that are not steps are not touched. Server
 * threads; each has one instance, or no instance when relegation is off.
 */

import type { HttpStream, RequestHead } from '../../http/http-stream.ts';
import type { RequestClass } from '../../providers/classify.ts';
import { nameOrigin, stepPathOf } from '../../providers/step-origin.ts';
import { isCredentialHeader } from '../../redaction/header-names.ts';
import type { FallbackReason, RelegationWire } from '../../student/serving/protocol.ts';
import { Forward, type ForwardContext } from '../forward.ts';
import type { Destination } from '../route-table.ts';
import { KnownCredentials } from './known-credentials.ts';
import { writeDecision } from './recorded-decision.ts';
import {
  RelegatedExchange,
  type RelegationDesk,
  type RelegationMode,
  STEP_BODY_BYTES,
} from './relegated-exchange.ts';
import { RelegationLedger } from './relegation-ledger.ts';
import { readStepHead } from './step-head.ts';
import type { StudentLink } from './student-link.ts';
import { STEPS_UNDER_WAY_BYTES } from './student-link.ts';

export class Relegation implements RelegationDesk {
  readonly mode: RelegationMode;
  readonly link: StudentLink;
  readonly ledger = new RelegationLedger();
  readonly #credentials: KnownCredentials;
  readonly #wires: ReadonlySet<RelegationWire>;
  readonly #runHeaders: readonly string[];
  /** Bytes of incomplete bodies in memory. */
  #heldBytes = 0;

  /**
   * @param ownKeys credentials that the student may answer even if the upstream has not seen them (SVC_STUDENT_KEYS)
   * @param wires wires whose steps are relegated (GW_RELEGATION_WIRES)
   * @param runHeaders headers that name runs (SVC_RUN_HEADERS)
   */
  constructor(
    mode: RelegationMode,
    link: StudentLink,
    ownKeys: readonly string[],
    wires: readonly RelegationWire[] = ['messages'],
    runHeaders: readonly string[] = [],
  ) {
    this.#runHeaders = runHeaders;
    this.#wires = new Set(wires);
    this.mode = mode;
    this.link = link;
    this.#credentials = new KnownCredentials(ownKeys);
    link.onCompared = (agreed, readingDiffers) => this.ledger.compared(agreed, readingDiffers, mode);
  }

  /**
   * Takes over a step that has a credential. If the student may be asked, the step waits for the student's decision.
   * Otherwise it is forwarded at once, and the upstream's answer shows whether the credential is valid.
   * @returns false when the caller must forward the request, which is unchanged: it is no step, or has no credential
   */
  take(
    context: ForwardContext,
    stream: HttpStream,
    destination: Destination,
    requestClass: RequestClass,
  ): boolean {
    const { head } = stream;
    const wire = this.#wireOf(head.path, destination, requestClass);
    if (wire === null) return false;
    const added = destination.headers?.names;
    const isKeyed = added !== undefined && [...added].some(isCredentialHeader);
    const origin = nameOrigin(wire, head.path, destination.provider);
    const step = readStepHead(wire, head.headers, origin, this.#runHeaders, isKeyed);
    if (step.refusal === 'no_credential') {
      // The upstream will refuse the request, so it does not take over the run.
      this.ledger.fallback('no_credential');
      return false;
    }
    const digest = this.#credentials.digest(head.headers, head.path, added);
    const isKnown = this.#credentials.isKnown(head.headers, digest);
    const refusal = step.refusal ?? (isKnown ? this.#refuse(head) : 'unknown_credential');
    if (refusal === null) {
      const onStatus = (status: number) => this.#credentials.noteAnswer(digest, status);
      new RelegatedExchange(this, context, stream, destination, requestClass, step, onStatus).start();
      return true;
    }
    this.ledger.fallback(refusal);
    const { run_id } = step;
    if (run_id !== null && isKnown) this.link.noteTaken(run_id);
    const forward = new Forward(context, stream, destination, requestClass);
    forward.noteDecision(writeDecision(refusal, null, null));
    forward.onStatus = (status) => {
      this.#credentials.noteAnswer(digest, status);
      // After a step with an unknown credential, the upstream takes over the run only if it accepts
      // the credential.
      if (run_id !== null && !isKnown && status < 300) this.link.noteTaken(run_id);
    };
    forward.start();
    return true;
  }

  reserve(bytes: number): boolean {
    if (this.#heldBytes + bytes > STEPS_UNDER_WAY_BYTES) return false;
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  /** Finds the wire of a step. @returns null for a request that is no step, or whose wire is not relegated */
  #wireOf(
    path: string,
    { route, path: routePath }: Destination,
    { kind, shape }: RequestClass,
  ): RelegationWire | null {
    if (kind !== 'turn' || !this.#wires.has(shape as RelegationWire)) return null;
    const wire = shape as RelegationWire;
    const end = stepPathOf(wire);
    // After a prefix, only the end of the path must be that of a step, because the upstream's base path may come first.
    // A tunnel to another host has no prefix, so its requests are not steps.
    const isStep =
      route === 'default'
        ? path === end
        : route === 'named' && routePath.length < path.length && routePath.endsWith(end);
    return isStep ? wire : null;
  }

  #refuse(head: RequestHead): FallbackReason | null {
    if (head.framing === 'none') return 'bad_request';
    if (head.framing === 'length' && head.content_length > STEP_BODY_BYTES) return 'too_large';
    return this.link.isReady && !this.link.isBusy ? null : this.link.hindrance;
  }
}
