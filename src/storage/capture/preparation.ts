/**
 * Prepares a captured exchange for storage: masks credentials, decodes compressed bodies, and takes attachments out.
 * Runs in the capture process.
 */
import type { CapturedExchange } from '../../domain/exchange.ts';
import { findSecrets } from '../../redaction/secret-search.ts';
import { Work } from '../../redaction/work.ts';
import { editBody } from './body-editor.ts';
import { isOfFrames } from './body-kind.ts';
import { BodyDecoder, type DecodedBody, readCodings } from './encoding.ts';
import { findHeader, HeadPreparer, joinHeader, REDACTION_WORK } from './heads.ts';
import { type PreparedBody, plainBody } from './prepared-body.ts';
import {
  causeOf,
  isCut,
  NO_BODY,
  type PreparedExchange,
  withholdAll,
  withholdResponse,
} from './prepared-exchange.ts';
import { NO_SECRETS, wantedOf } from './secret-set.ts';
import { findSplitSecrets, maskEventStream } from './stream-secrets.ts';

interface PreparerExtras {
  /** The clock of the decompression budget; tests replace it. */
  now?: () => number;
  /** Masked in every exchange: credentials that the gateway adds to requests. */
  operator_secrets?: readonly string[];
  /**
   * Folder of the secret that keeps masked run labels distinct; if omitted, the secret lasts as long as the preparer.
   */
  data_dir?: string;
  /** The operator's headers that name runs, in lower case. */
  run_headers?: readonly string[];
}

export class Preparer {
  readonly #redact: boolean;
  readonly #heads: HeadPreparer;
  readonly #decoder: BodyDecoder;

  /**
   * @param redact whether to mask key shapes in bodies, headers and query, and inside compressed bodies
   * @param maxDecodedBytes maximum length of a body after its content-encoding was removed
   */
  constructor(redact: boolean, maxDecodedBytes: number, extras: PreparerExtras = {}) {
    const { now, operator_secrets, data_dir, run_headers } = extras;
    this.#redact = redact;
    this.#heads = new HeadPreparer(redact, operator_secrets, data_dir, run_headers);
    this.#decoder = new BodyDecoder(maxDecodedBytes, now);
  }

  /**
   * Prepares everything except the edits of the bodies. Returns a promise only if a compressed body is damaged or too
   * large. Does not throw because of an exchange's content: a body that cannot be searched is withheld.
   */
  prepare(exchange: CapturedExchange): PreparedExchange | Promise<PreparedExchange> {
    try {
      const prepared = this.#prepare(exchange);
      if (!(prepared instanceof Promise)) return prepared;
      return prepared.catch((error: unknown) => withholdAll(exchange, causeOf(error)));
    } catch (error) {
      return withholdAll(exchange, causeOf(error));
    }
  }

  #prepare(exchange: CapturedExchange): PreparedExchange | Promise<PreparedExchange> {
    const work = new Work(REDACTION_WORK.bytes);
    const heads = this.#heads.prepare(exchange, work);
    const responseCoding = joinHeader(exchange.response_headers, 'content-encoding');
    const prepared: PreparedExchange = {
      exchange,
      secrets: heads.secrets,
      head: heads.meta,
      response_headers: heads.response_headers,
      request_type: heads.request_type,
      response_type: findHeader(exchange.response_headers, 'content-type'),
      response_coding: responseCoding,
      request_raw: asBuffer(exchange.request_body),
      response_raw: asBuffer(exchange.response_body),
      request_decoded: false,
      response_decoded: false,
      truncated: exchange.truncated,
      request_withheld: null,
      response_withheld: null,
      work,
    };
    if (!this.#redact) {
      return responseCoding !== null ? this.#finish(prepared) : this.#maskFrames(this.#finish(prepared));
    }
    const requestDecoded = this.#decoder.decode(prepared.request_raw, heads.request_coding);
    const responseDecoded = this.#decoder.decode(prepared.response_raw, responseCoding);
    if (requestDecoded instanceof Promise || responseDecoded instanceof Promise) {
      return Promise.all([requestDecoded, responseDecoded]).then(([a, b]) =>
        this.#finishDecoded(prepared, a, b),
      );
    }
    return this.#finishDecoded(prepared, requestDecoded, responseDecoded);
  }

  /** Sets the work limit for the bodies. */
  #finish(prepared: PreparedExchange): PreparedExchange {
    const bytes = prepared.request_raw.length + prepared.response_raw.length;
    prepared.work.allow(bytes * REDACTION_WORK.for_each_byte);
    return prepared;
  }

  #finishDecoded(prepared: PreparedExchange, a: DecodedBody, b: DecodedBody): PreparedExchange {
    prepared.request_raw = a.body;
    prepared.request_decoded = a.decoded;
    prepared.request_withheld = a.withheld;
    prepared.response_raw = b.body;
    prepared.response_decoded = b.decoded;
    prepared.response_withheld = b.withheld;
    prepared.truncated = prepared.truncated || a.cut || b.cut;
    this.#finish(prepared);
    this.#unpack(prepared, 'request');
    this.#unpack(prepared, 'response');
    return this.#maskFrames(prepared);
  }

  /**
   * Handles a body that is compressed although no header says so. The body is stored unchanged if it contains no
   * secret, otherwise decompressed; if it cannot be searched, it is withheld.
   */
  #unpack(prepared: PreparedExchange, side: 'request' | 'response'): void {
    const raw = side === 'request' ? prepared.request_raw : prepared.response_raw;
    const unpacked = this.#decoder.unpack(raw);
    if (unpacked === null) return;
    const { body } = unpacked;
    let { withheld } = unpacked;
    let holdsSecret = false;
    if (withheld === null) {
      prepared.work.allow(2 * body.length * REDACTION_WORK.for_each_byte);
      try {
        const wanted = prepared.secrets.with_keys;
        holdsSecret =
          findSecrets(body, wanted, prepared.work).length > 0 ||
          findSplitSecrets(body, wanted, prepared.work).length > 0;
      } catch (error) {
        withheld = causeOf(error);
      }
    }
    if (withheld === null && !holdsSecret) return;
    prepared.truncated ||= withheld !== null;
    if (side === 'request') {
      prepared.request_raw = body;
      prepared.request_decoded = true;
      prepared.request_withheld = withheld;
    } else {
      prepared.response_raw = body;
      prepared.response_decoded = true;
      prepared.response_withheld = withheld;
    }
  }

  /** Masks a response in frames with checksums, frame by frame. This must precede the edits of the body. */
  #maskFrames(prepared: PreparedExchange): PreparedExchange {
    if (!isOfFrames(prepared.response_type)) return prepared;
    const { response_raw, secrets, work } = prepared;
    try {
      prepared.response_raw = maskEventStream(response_raw, wantedOf(secrets, this.#redact), work);
    } catch (error) {
      withholdResponse(prepared, causeOf(error));
    }
    return prepared;
  }

  /**
   * Makes the stored body of a request; empty if the body is withheld.
   * @param base an earlier body that was edited with the same secrets; null: none
   * @param prefix length of the common beginning
   */
  editRequest(prepared: PreparedExchange, base: PreparedBody | null, prefix: number): PreparedBody {
    if (prepared.request_withheld !== null) return plainBody(NO_BODY);
    try {
      return editBody(prepared.request_raw, base, prefix, {
        needles: this.#redact ? prepared.secrets : NO_SECRETS,
        shapes: this.#redact,
        contentType: prepared.request_type,
        cut: isCut(prepared),
        work: prepared.work,
      });
    } catch (error) {
      prepared.request_withheld = causeOf(error);
      prepared.truncated = true;
      return plainBody(NO_BODY);
    }
  }

  /**
   * Makes the stored body of a response; empty if the body is withheld. If the response repeats credentials of the
   * request, they are masked even if `redact` is false, except in a compressed body.
   */
  editResponse(prepared: PreparedExchange, base: PreparedBody | null, prefix: number): PreparedBody {
    if (prepared.response_withheld !== null) return plainBody(NO_BODY);
    const packed = !this.#redact && readCodings(prepared.response_coding).length > 0;
    try {
      return editBody(prepared.response_raw, base, prefix, {
        needles: packed ? NO_SECRETS : prepared.secrets,
        shapes: this.#redact,
        contentType: prepared.response_type,
        cut: isCut(prepared),
        work: prepared.work,
      });
    } catch (error) {
      withholdResponse(prepared, causeOf(error));
      return plainBody(NO_BODY);
    }
  }
}

/** Returns a view of the same memory. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
