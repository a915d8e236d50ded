/**
 * An exchange that is forwarded while the student is asked what it would have said: the upstream's answer is kept, by
 * reference and up to a bound, and handed over when it is whole. Front threads.
 */

import type { Dispatcher } from 'undici';
import type { HttpStream } from '../http/http-stream.ts';
import { SHADOWED_ANSWER_BYTES } from '../limits.ts';
import { type BegunExchange, Forward, type ForwardContext } from './forward.ts';
import type { Destination } from './route-table.ts';
import type { RequestClass } from './turns/classify.ts';

/** The upstream's answer, as it came. */
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

  /** @param onAnswer called once, with an answer that came whole and is not too long; else never */
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

  override onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
    statusText?: string,
  ): void {
    if (status >= 200) {
      this.#answerStatus = status;
      const raw = (controller.rawHeaders ?? []) as (Buffer | string)[];
      this.#headers = raw.map((part) => (typeof part === 'string' ? part : part.toString('latin1')));
    }
    super.onResponseStart(controller, status, headers, statusText);
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= SHADOWED_ANSWER_BYTES) this.#chunks.push(chunk);
    else this.#chunks = [];
    super.onResponseData(controller, chunk);
  }

  override onResponseEnd(controller: Dispatcher.DispatchController): void {
    super.onResponseEnd(controller);
    const chunks = this.#chunks;
    this.#chunks = [];
    if (this.connection?.wasReset || this.#bytes > SHADOWED_ANSWER_BYTES) return;
    const body = new Uint8Array(this.#bytes);
    let at = 0;
    for (const chunk of chunks) {
      body.set(chunk, at);
      at += chunk.length;
    }
    this.#onAnswer({ status: this.#answerStatus, headers: this.#headers, body });
  }
}
