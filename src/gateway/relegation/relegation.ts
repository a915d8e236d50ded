/**
 * Relegation on one server thread: which requests are steps that the student may be asked about, and what becomes of those that
 * it may not. Whatever is not a step is not touched, and what the student does not serve is forwarded as ever. Server
 * threads, one each; there is none where relegation is off.
 */

import type { HttpStream, RequestHead } from '../../http/http-stream.ts';
import { STEP_BODY_BYTES, STEPS_UNDER_WAY_BYTES } from '../../limits.ts';
import type { RequestClass } from '../../providers/classify.ts';
import { API_VERSIONS, type ApiVersion, type FallbackReason } from '../../student/serving/protocol.ts';
import { Forward, type ForwardContext } from '../forward.ts';
import { parseSeq, readRunId } from '../headers.ts';
import type { Destination } from '../route-table.ts';
import { KnownCredentials } from './known-credentials.ts';
import { RelegatedExchange } from './relegated-exchange.ts';
import { RelegationLedger } from './relegation-ledger.ts';
import type { StepHead, StudentLink } from './student-link.ts';

/** `shadow`: the upstream serves every step; what the student would have said is compared with it. */
export type RelegationMode = 'on' | 'shadow';

/** The one path whose requests are steps, raw. */
const STEP_PATH = '/v1/messages';

export class Relegation {
  readonly mode: RelegationMode;
  readonly link: StudentLink;
  readonly ledger = new RelegationLedger();
  readonly #credentials: KnownCredentials;
  /** Of bodies that are still coming in. */
  #heldBytes = 0;

  /** @param ownKeys credentials that the student may answer unseen (SVC_STUDENT_KEYS) */
  constructor(mode: RelegationMode, link: StudentLink, ownKeys: readonly string[]) {
    this.mode = mode;
    this.link = link;
    this.#credentials = new KnownCredentials(ownKeys);
    link.onCompared = (agreed) => this.ledger.compared(agreed);
  }

  /**
   * Takes over a request that is a step: the student may have something to say of it, or the upstream of its credential.
   * @returns false when it is to be forwarded now, and nothing has been done with it
   */
  take(
    context: ForwardContext,
    stream: HttpStream,
    destination: Destination,
    requestClass: RequestClass,
  ): boolean {
    const { head } = stream;
    if (
      destination.route !== 'default' ||
      requestClass.shape !== 'messages' ||
      requestClass.kind !== 'turn' ||
      head.path !== STEP_PATH
    ) {
      return false;
    }
    const step = readStepHead(head.headers);
    if (step.refusal === 'no_credential') {
      // The upstream refuses it, which takes nobody's run over.
      this.ledger.fallback('no_credential');
      return false;
    }
    const digest = this.#credentials.digest(head.headers);
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
    forward.onStatus = (status) => {
      this.#credentials.noteAnswer(digest, status);
      // A stranger takes nobody's run over either, unless the upstream takes the stranger.
      if (run_id !== null && !isKnown && status < 300) this.link.noteTaken(run_id);
    };
    forward.start();
    return true;
  }

  /** Takes room for body bytes that wait for the others of their body. @returns false when there is none */
  reserve(bytes: number): boolean {
    if (this.#heldBytes + bytes > STEPS_UNDER_WAY_BYTES) return false;
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  #refuse(head: RequestHead): FallbackReason | null {
    if (head.framing === 'none') return 'bad_request';
    if (head.framing === 'length' && head.content_length > STEP_BODY_BYTES) return 'too_large';
    if (!this.link.isReady) return 'loading';
    return this.link.isBusy ? 'busy' : null;
  }
}

/** What the headers say of a step: what the student is to know, and why it may not be asked. */
export interface ReadStepHead extends StepHead {
  refusal: FallbackReason | null;
}

/** Reads a step's headers; credentials are looked for, never kept. */
export function readStepHead(headers: readonly string[]): ReadStepHead {
  let hasCredential = false;
  let isJson = false;
  let isEncoded = false;
  let version: string | null = null;
  const step: ReadStepHead = {
    run_id: null,
    seq: null,
    betas: [],
    api_version: API_VERSIONS[0],
    refusal: null,
  };
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1]!;
    switch (headers[at]) {
      case 'x-api-key':
      case 'authorization':
        hasCredential ||= value.trim() !== '';
        break;
      case 'content-type':
        isJson = /^application\/json\s*(;|$)/i.test(value);
        break;
      case 'content-encoding':
        isEncoded ||= value.trim().toLowerCase() !== 'identity';
        break;
      case 'anthropic-version':
        version = value.trim();
        break;
      case 'anthropic-beta':
        step.betas.push(value);
        break;
      case 'x-svc-run':
        step.run_id = readRunId(value);
        break;
      case 'x-svc-seq':
        step.seq = parseSeq(value);
        break;
    }
  }
  if (!hasCredential) step.refusal = 'no_credential';
  else if (!isJson || isEncoded) step.refusal = 'encoded';
  else if (version === null) step.refusal = 'bad_request';
  else if (API_VERSIONS.includes(version as ApiVersion)) step.api_version = version as ApiVersion;
  else step.refusal = 'unsupported';
  return step;
}
