/**
 * A forwarded exchange whose answer is compared with the student's, in shadow mode or in an audit.
 * It collects the upstream's answer up to a bound, and passes it to `onAnswer` when it is complete.
 * Server threads.
 */

import type { HttpStream } from '../../http/http-stream.ts';
import type { RequestClass } from '../../providers/classify.ts';
import { type BegunExchange, Forward, type ForwardContext } from '../forward.ts';
import type { Destination } from '../route-table.ts';
import type { Fields } from '../upstream/field-section.ts';
import type { ResponseHead } from '../upstream/response-parser.ts';

/** Maximum size of an upstream's answer that is compared. */
const SHADOWED_ANSWER_BYTES = 2 << 20;

/** The upstream's answer as received. */
export interface ShadowedAnswer {
  status: number;
  /** Flat pairs. */
  headers: string[];
  body: Uint8Array<ArrayBuffer>;
}

export class ShadowedForward extends Forward {
  readonly #onAnswer: (answer: ShadowedAnswer) => void;
  #answerStatus = 0;
  #headers: string[] = [];
  #chunks: Buffer[] = [];
  #bytes = 0;

  /** @param onAnswer called once with a complete answer within the bound; otherwise never */
  constructor(
    context: ForwardContext,
    stream: HttpStream,
    destination: Destination,
    requestClass: RequestClass,
    begun: BegunExchange,
    onAnswer: (answer: ShadowedAnswer) => void,
  ) {
    super(context, stream, destination, requestClass, begun);
    this.#onAnswer = onAnswer;
  }

  override onHead(head: ResponseHead): void {
    if (head.status >= 200) {
      this.#answerStatus = head.status;
      this.#headers = head.headers;
    }
    super.onHead(head);
  }

  override onBody(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= SHADOWED_ANSWER_BYTES) this.#chunks.push(Buffer.from(chunk));
    else this.#chunks = [];
    super.onBody(chunk);
  }

  override onEnd(trailers: Fields | null): void {
    super.onEnd(trailers);
    const chunks = this.#chunks;
    this.#chunks = [];
    if (this.#bytes > SHADOWED_ANSWER_BYTES) return;
    const body = new Uint8Array(this.#bytes);
    let at = 0;
    for (const chunk of chunks) {
      body.set(chunk, at);
      at += chunk.length;
    }
    this.#onAnswer({ status: this.#answerStatus, headers: this.#headers, body });
  }
}
