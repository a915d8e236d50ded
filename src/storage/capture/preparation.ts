/**
 * From an exchange as captured to what may be stored: credentials masked, compressed bodies decoded, attachments taken
 * out. Runs on the capture writer's actor thread.
 *
 * What is done to a body is a list of edits (range → replacement). An agent's next request begins with its previous
 * one, so the edits of the previous body are kept inside the common beginning (and end), and only what is new between
 * them is scanned, with a margin that is longer than any key.
 */
import { byteEngine, packNeedles } from '../../../native/byte-engine.ts';
import type { CapturedExchange, RequestForm, WithheldCause } from '../../domain/exchange.ts';
import { ATTACHMENT_BYTES_MIN, FILES_PER_BODY, MASKS_PER_BODY, REDACTION_WORK } from '../../limits.ts';
import { type ByteRange, mergeRanges } from '../../redaction/byte-range.ts';
import {
  collectCredentials,
  credentialForms,
  MAX_FORMS,
  MIN_CREDENTIAL_LENGTH,
} from '../../redaction/credentials.ts';
import { isCredentialHeader } from '../../redaction/header-names.ts';
import { CHARACTERS, KINDS } from '../../redaction/key-shapes.ts';
import { MASK, maskRangesOfText, SCAN_MARGIN_BYTES } from '../../redaction/mask.ts';
import { measureCutNeedle } from '../../redaction/needles.ts';
import { PEM_TAIL } from '../../redaction/private-keys.ts';
import { maskEmbeddedQueries, maskQuery } from '../../redaction/query.ts';
import { findSecrets, type Wanted } from '../../redaction/secret-search.ts';
import { Work, WorkExceededError } from '../../redaction/work.ts';
import { leaveRest } from '../../std/own-memory.ts';
import {
  type FoundAttachment,
  findAttachments,
  isBinary,
  MIN_BASE64_CHARS,
  mayHoldPlaceholder,
  PLACEHOLDER_HEAD_BYTES,
  wrapBinaryBody,
} from './attachments.ts';
import { measureCommonPrefix, measureCommonSuffix } from './delta.ts';
import { BodyDecoder, type DecodedBody, readCodings } from './encoding.ts';
import { encodeHeadMeta, type HeadMeta } from './record.ts';
import { findSplitSecrets, maskEventStream } from './stream-secrets.ts';

/** A range of the body as it came, and what stands there in the stored copy. */
interface Edit {
  start: number;
  end: number;
  text: Buffer;
  is_file: boolean;
}

/** One body, both as it came (in memory only) and as it is stored. */
export interface PreparedBody {
  raw: Buffer;
  /** `raw` itself when nothing had to be changed. */
  stored: Buffer;
  edits: Edit[];
  /** Holds our placeholder's beginning by itself: attachments stay inside. */
  keeps_files: boolean;
  has_files: boolean;
  /** Attachments that came with this body and were not in its base, until they are saved. */
  new_files: readonly FoundAttachment[];
}

/** The secrets of one request in all their forms. Compared by identity: the same credential gives the same object. */
export interface SecretSet {
  texts: string[];
  bytes: Buffer[];
  /** The bytes as the byte engine takes them. */
  packed: Uint8Array;
  /** The same with all else that a body is searched for. */
  packed_all: Uint8Array;
  /** They alone, and they with keys by their shape. */
  alone: Wanted;
  with_keys: Wanted;
}

/** An exchange ready to be encoded. */
export interface PreparedExchange {
  exchange: CapturedExchange;
  secrets: SecretSet;
  head: HeadMeta;
  response_headers: string;
  request_type: string | null;
  response_type: string | null;
  response_coding: string | null;
  /** Without content-encoding when secrets must be masked inside. */
  request_raw: Buffer;
  response_raw: Buffer;
  request_decoded: boolean;
  response_decoded: boolean;
  /** Something of a body is missing. */
  truncated: boolean;
  /** Why a body is not kept; null for one that is. Known for good when both bodies are edited. */
  request_withheld: WithheldCause | null;
  response_withheld: WithheldCause | null;
  /** What has been done to find the secrets in it, and how much more may be. */
  work: Work;
}

const NO_BYTES = new Uint8Array(0);
const MASK_BYTES = Buffer.from(MASK, 'latin1');
const EVENT_STREAM_FRAMES = /application\/vnd\.amazon\.eventstream/i;
const SERVER_SENT_EVENTS = /text\/event-stream/i;
const OPENING_BRACE = 0x7b;
/** How a stream of events begins, whatever its type says. */
const EVENT_BEGINNINGS = ['data:', 'event:', 'id:', 'retry:', ':'].map((field) => Buffer.from(field));

const NO_SECRETS = makeSecretSet([]);
export const NO_FILES: readonly FoundAttachment[] = Object.freeze([]);

/** Bounds of what is remembered about headers and credentials; emptied when full. */
const MAX_REMEMBERED = 1_024;
/** Of one of them; longer ones are not remembered. */
const MAX_REMEMBERED_LENGTH = 16_384;

/** A view of the same memory. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The value of a header, the last one if it comes more than once; null when it is not there. */
function findHeader(headers: readonly string[], name: string): string | null {
  for (let i = headers.length - 2; i >= 0; i -= 2) {
    const key = headers[i]!;
    if (key === name || (key.length === name.length && key.toLowerCase() === name)) return headers[i + 1]!;
  }
  return null;
}

/** All values of a header in order, joined with a comma; null when it is not there. */
function joinHeader(headers: readonly string[], name: string): string | null {
  let joined: string | null = null;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const key = headers[i]!;
    if (key !== name && (key.length !== name.length || key.toLowerCase() !== name)) continue;
    joined = joined === null ? headers[i + 1]! : `${joined},${headers[i + 1]}`;
  }
  return joined;
}

/** A request's headers as they are stored, and the secrets in them and in its query. */
interface RequestHeaders {
  headers: string;
  /** Nothing was masked but what its header's name says is a credential. */
  is_plain: boolean;
  secrets: SecretSet;
}

/** All that the last request of a form came to, and what it came from. */
interface RequestHead {
  exchange: CapturedExchange;
  secrets: SecretSet;
  meta: HeadMeta;
  /**
   * For other requests of the form: `meta.headers` without the values that vary, in pieces between which those stand. null
   * when what is masked may depend on one of those: then each request is looked at anew.
   */
  pieces: readonly string[] | null;
  type: string | null;
  coding: string | null;
}

/** Whether all that makes up a head but the headers and the run is equal. */
function isSameRoute(a: CapturedExchange, b: CapturedExchange): boolean {
  return (
    a.query === b.query &&
    a.path === b.path &&
    a.note === b.note &&
    a.method === b.method &&
    a.provider === b.provider &&
    a.shape === b.shape &&
    a.served_by === b.served_by
  );
}

/** Remembers what the last requests' headers came to, since a client sends nearly the same ones each time. */
export class Preparer {
  readonly #redact: boolean;
  readonly #decoder: BodyDecoder;
  readonly #requests = new Map<string, RequestHeaders>();
  /** Whole heads by the very form, or by the very array of headers, for those that read equal ones into one. */
  readonly #recent = new Map<RequestForm | readonly string[], RequestHead>();
  readonly #secretSets = new Map<string, SecretSet>();

  /**
   * @param redact mask key shapes in bodies, headers and query, and inside compressed bodies
   * @param maxDecodedBytes most bytes of a body without its content-encoding
   * @param now for tests: the clock by which there is time to decompress
   */
  constructor(redact: boolean, maxDecodedBytes: number, now?: () => number) {
    this.#redact = redact;
    this.#decoder = new BodyDecoder(maxDecodedBytes, now);
  }

  /**
   * Everything but the bodies' edits. A promise only when a compressed body is damaged or too large. Whatever the exchange
   * holds, it does not throw: what cannot be searched is withheld.
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
    const known = this.#prepareRequestHead(exchange);
    const { secrets, type, coding } = known;
    const answer = maskHeaders(exchange.response_headers);
    const work = new Work(REDACTION_WORK.bytes);
    const isKnown = isSameRequest(known.exchange, exchange);
    const own = isKnown ? '' : readOwn(known.exchange, exchange);
    let meta = known.meta;
    let responseHeaders = answer;
    if (own !== null && isFreeOf(own === '' ? answer : answer + own, secrets)) {
      if (!isKnown) meta = completeHead(known, exchange);
    } else {
      work.allow(answer.length * REDACTION_WORK.for_each_byte);
      responseHeaders = maskHead(answer, secrets, this.#redact, work);
      if (!isKnown) meta = this.#readRequestHead(exchange).meta;
    }
    const responseCoding = joinHeader(exchange.response_headers, 'content-encoding');
    const prepared: PreparedExchange = {
      exchange,
      secrets,
      head: meta,
      response_headers: responseHeaders,
      request_type: type,
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
    const requestDecoded = this.#decoder.decode(prepared.request_raw, coding);
    const responseDecoded = this.#decoder.decode(prepared.response_raw, responseCoding);
    if (requestDecoded instanceof Promise || responseDecoded instanceof Promise) {
      return Promise.all([requestDecoded, responseDecoded]).then(([a, b]) =>
        this.#finishDecoded(prepared, a, b),
      );
    }
    return this.#finishDecoded(prepared, requestDecoded, responseDecoded);
  }

  /** The work that its bodies are worth. */
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

  /** A body that is compressed without saying so is kept as it came where there is no secret in it, else unpacked. */
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

  /** Frames with checksums are masked as frames, before all else. */
  #maskFrames(prepared: PreparedExchange): PreparedExchange {
    const type = prepared.response_type;
    if (type === null || type === textType || !EVENT_STREAM_FRAMES.test(type)) return prepared;
    const { response_raw, secrets, work } = prepared;
    try {
      prepared.response_raw = maskEventStream(response_raw, wantedOf(secrets, this.#redact), work);
    } catch (error) {
      withholdResponse(prepared, causeOf(error));
    }
    return prepared;
  }

  #prepareRequestHead(exchange: CapturedExchange): RequestHead {
    const key = exchange.request_form ?? exchange.request_headers;
    const recent = this.#recent.get(key);
    if (recent !== undefined && recent.pieces !== null && isSameRoute(recent.exchange, exchange))
      return recent;
    const head = this.#readRequestHead(exchange);
    if (head.meta.headers.length + head.meta.route.length > MAX_REMEMBERED_LENGTH) return head;
    if (this.#recent.size >= MAX_REMEMBERED) this.#recent.clear();
    this.#recent.set(key, head);
    return head;
  }

  #readRequestHead(exchange: CapturedExchange): RequestHead {
    const { headers, is_plain, secrets } = this.#readRequestHeaders(exchange);
    const work = new Work(REDACTION_WORK.bytes);
    let runId = exchange.run_id;
    let note = exchange.note;
    let path = exchange.path;
    let query = maskQuery(exchange.query);
    work.allow((path.length + query.length) * REDACTION_WORK.for_each_byte);
    const together = `${runId ?? ''}\n${note}\n${path}\n${query}`;
    if (maskHead(together, secrets, this.#redact, work) !== together) {
      runId = runId === null ? null : maskHead(runId, secrets, this.#redact, work);
      note = maskHead(note, secrets, this.#redact, work);
      path = maskHead(path, secrets, this.#redact, work);
      query = maskHead(query, secrets, this.#redact, work);
    }
    const meta = encodeHeadMeta(exchange, runId, note, path, query, headers);
    // Without its bodies, whose memory is not for keeping.
    const route = { ...exchange, response_headers: [], request_body: NO_BYTES, response_body: NO_BYTES };
    return {
      exchange: route,
      secrets,
      meta,
      pieces: is_plain ? cutVarying(exchange, headers) : null,
      type: findHeader(exchange.request_headers, 'content-type'),
      coding: joinHeader(exchange.request_headers, 'content-encoding'),
    };
  }

  #readRequestHeaders(exchange: CapturedExchange): RequestHeaders {
    const key = `${exchange.query}\n\n${exchange.request_headers.join('\n')}`;
    const known = this.#requests.get(key);
    if (known !== undefined) return known;
    const found = collectCredentials(exchange.request_headers, exchange.query);
    const secrets = this.#internSecrets(found);
    const text = maskHeaders(exchange.request_headers);
    const work = new Work(REDACTION_WORK.bytes + text.length * REDACTION_WORK.for_each_byte);
    const headers = maskHead(text, secrets, this.#redact, work);
    const read = { headers, is_plain: headers === text, secrets };
    if (this.#requests.size >= MAX_REMEMBERED) this.#requests.clear();
    if (key.length <= MAX_REMEMBERED_LENGTH) this.#requests.set(key, read);
    return read;
  }

  #internSecrets(found: string[]): SecretSet {
    if (found.length === 0) return NO_SECRETS;
    const key = found.join('\n');
    const known = this.#secretSets.get(key);
    if (known !== undefined) return known;
    const texts = [...new Set(found.flatMap(credentialForms))].sort((a, b) => b.length - a.length);
    const secrets = makeSecretSet(texts.slice(-MAX_FORMS));
    // Long ones are not kept: of those each may be another.
    if (secrets.packed.length > MAX_REMEMBERED_LENGTH) return secrets;
    if (this.#secretSets.size >= MAX_REMEMBERED) this.#secretSets.clear();
    this.#secretSets.set(key, secrets);
    return secrets;
  }

  /**
   * A request's body as it is stored; an empty one when it is withheld.
   * @param base the previous body with the same secrets, or null
   * @param prefix bytes that both begin with
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

  /** A response's body as it is stored; echoes of the request's credentials are masked in every mode. */
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

const NO_BODY = Buffer.alloc(0);

/** Why a body is withheld whose search ended like this. */
function causeOf(error: unknown): WithheldCause {
  return error instanceof WorkExceededError ? 'redaction_budget' : 'failed';
}

function withholdResponse(prepared: PreparedExchange, cause: WithheldCause): void {
  prepared.response_withheld = cause;
  prepared.response_raw = NO_BODY;
  prepared.truncated = true;
}

const NONE_WITHHELD: readonly WithheldCause[] = Object.freeze([]);

/** Why bodies of the exchange are not kept, one for each such body; to be asked when both are edited. */
export function listWithheld({
  request_withheld,
  response_withheld,
}: PreparedExchange): readonly WithheldCause[] {
  if (request_withheld === null && response_withheld === null) return NONE_WITHHELD;
  return [request_withheld, response_withheld].filter((cause) => cause !== null);
}

/** An exchange of which nothing is kept but what the gateway itself says of it. */
function withholdAll(exchange: CapturedExchange, cause: WithheldCause): PreparedExchange {
  return {
    exchange,
    secrets: NO_SECRETS,
    head: encodeHeadMeta(exchange, null, '', '', '', ''),
    response_headers: '',
    request_type: null,
    response_type: null,
    response_coding: null,
    request_raw: NO_BODY,
    response_raw: NO_BODY,
    request_decoded: false,
    response_decoded: false,
    truncated: true,
    request_withheld: cause,
    response_withheld: cause,
    work: new Work(0),
  };
}

function makeSecretSet(texts: string[]): SecretSet {
  const bytes = texts.map((text) => Buffer.from(text, 'latin1'));
  const packed = packNeedles(bytes);
  return {
    texts,
    bytes,
    packed,
    alone: { needles: bytes, packed, shapes: false },
    with_keys: { needles: bytes, packed, shapes: true },
    packed_all: packNeedles([...bytes, PEM_TAIL, PLACEHOLDER_HEAD_BYTES]),
  };
}

function wantedOf(secrets: SecretSet, shapes: boolean): Wanted {
  return shapes ? secrets.with_keys : secrets.alone;
}

/** A part of a head without the secrets and, if wanted, without key shapes. */
function maskHead(text: string, secrets: SecretSet, shapes: boolean, work: Work): string {
  if (text.length < MIN_CREDENTIAL_LENGTH) return text;
  // Characters beyond latin1 become one byte each; only positions are used.
  const bytes = Buffer.from(text, 'latin1');
  return maskRangesOfText(text, mergeRanges(findSecrets(bytes, wantedOf(secrets, shapes), work)));
}

/** Flat headers as `name\nvalue\n…`, credentials masked. Neither can hold a newline. */
function maskHeaders(headers: readonly string[]): string {
  let text = '';
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i]!;
    let value = headers[i + 1]!;
    if (value !== '' && isCredentialHeader(name)) value = MASK;
    else if (value.includes('=')) value = maskEmbeddedQueries(value);
    text += i === 0 ? `${name}\n${value}` : `\n${name}\n${value}`;
  }
  return text;
}

/**
 * Cuts headers in which no value was masked in part at the values that vary, as JSON.
 * @returns null when one of those is more than a value
 */
function cutVarying(
  { request_form, request_headers }: CapturedExchange,
  masked: string,
): readonly string[] | null {
  const varying = request_form?.varying ?? [];
  if (varying.length === 0) return [JSON.stringify(masked)];
  const lines = masked.split('\n');
  if (lines.length !== request_headers.length) return null;
  const pieces: string[] = [];
  let from = 0;
  for (const at of varying) {
    const name = request_headers[at - 1]!;
    if (isCredentialHeader(name) || READ_HEADERS.has(name)) return null;
    pieces.push(`${from === 0 ? '"' : '\\n'}${encodePiece(`${lines.slice(from, at).join('\n')}\n`)}`);
    from = at + 1;
  }
  pieces.push(
    `${encodePiece(
      lines
        .slice(from)
        .map((line) => `\n${line}`)
        .join(''),
    )}"`,
  );
  return pieces;
}

/** Headers whose values are read once for all requests of a form. */
const READ_HEADERS = new Set(['content-type', 'content-encoding']);

/** No text that JSON has otherwise. */
const PLAIN_TEXT = /^[ !#-[\]-~]*$/;

/** Inside of a JSON string. */
function encodePiece(text: string): string {
  return PLAIN_TEXT.test(text) ? text : JSON.stringify(text).slice(1, -1);
}

/** Whether nothing of a request's head is otherwise than in one of the same form. */
function isSameRequest(
  known: CapturedExchange,
  { run_id, request_form, request_headers }: CapturedExchange,
): boolean {
  if (known.run_id !== run_id) return false;
  return (
    request_form === undefined ||
    request_form.varying.length === 0 ||
    known.request_headers === request_headers
  );
}

/**
 * What is otherwise, as far as it is long enough to hold a secret, to be searched for one.
 * @returns null when the request has to be read by itself
 */
function readOwn(
  known: CapturedExchange,
  { run_id, request_form, request_headers }: CapturedExchange,
): string | null {
  let text = known.run_id === run_id || run_id === null ? '' : `\n${run_id}`;
  if (request_form === undefined) return text;
  for (const at of request_form.varying) {
    const value = request_headers[at]!;
    // A query may be in it, whose secrets are known by their names.
    if (value.includes('=')) return null;
    if (value.length >= MIN_CREDENTIAL_LENGTH) text += `\n${value}`;
  }
  return text;
}

/** The head of a request that is free of secrets where it differs from the known one. */
function completeHead(
  { pieces, meta, exchange }: RequestHead,
  { run_id, request_form, request_headers }: CapturedExchange,
): HeadMeta {
  let headers = pieces![0]!;
  if (request_form !== undefined) {
    const { varying } = request_form;
    for (let i = 0; i < varying.length; i++)
      headers += encodePiece(request_headers[varying[i]!]!) + pieces![i + 1]!;
  }
  return {
    run_id: exchange.run_id === run_id ? meta.run_id : JSON.stringify(run_id),
    route: meta.route,
    headers,
  };
}

/** Texts longer than this are looked at in another way. */
const SCRATCH_BYTES = 8_192;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** Whether there is surely none of the secrets in the text and no key shape. One look; false also for a long text. */
function isFreeOf(text: string, secrets: SecretSet): boolean {
  if (text.length > SCRATCH_BYTES) return false;
  // Characters beyond latin1 become one byte each, in the text as in the secrets.
  const bytes = scratch.write(text, 0, 'latin1');
  return byteEngine.isPlain(scratch.subarray(0, bytes), secrets.packed_all, MORE_THAN_FITS);
}

/** Base64 is not asked for. */
const MORE_THAN_FITS = SCRATCH_BYTES + 1;

/** A body may end in the middle of something. */
function isCut({ exchange, truncated }: PreparedExchange): boolean {
  return truncated || exchange.aborted;
}

/** A body that is stored as it came. */
function plainBody(raw: Buffer): PreparedBody {
  return { raw, stored: raw, edits: [], keeps_files: false, has_files: false, new_files: NO_FILES };
}

/** What is looked for in a body. */
interface BodySearch {
  needles: SecretSet;
  shapes: boolean;
  contentType: string | null;
  /** The body may end inside a needle; its beginning is masked then, too. */
  cut: boolean;
  work: Work;
}

/** @throws {WorkExceededError} when it takes more than it may */
function editBody(raw: Buffer, base: PreparedBody | null, prefix: number, search: BodySearch): PreparedBody {
  const { needles, shapes, contentType, cut, work } = search;
  const wanted = wantedOf(needles, shapes);
  if (raw.length === 0) return plainBody(raw);
  if (base !== null && prefix === raw.length && prefix === base.raw.length)
    return { ...base, raw, stored: base.stored === base.raw ? raw : base.stored, new_files: NO_FILES };
  const isUnderway = base !== null && prefix > SCAN_MARGIN_BYTES;
  // What nearly every body is: text with nothing in it that the stored copy would have otherwise.
  if (!isUnderway && shapes && !cut && isOfText(raw, contentType)) {
    if (byteEngine.isPlain(raw, needles.packed_all, MIN_BASE64_CHARS)) return plainBody(raw);
  }
  // Secrets in pieces can lie anywhere before and after what is new.
  const events = isSearchedInParts(raw, contentType);
  const whole = events ? null : wrapBinaryBody(raw, contentType);
  // A file with a secret in it is kept as a text is, masked.
  if (whole !== null && !mayHoldPlaceholder(raw) && findSecrets(raw, wanted, work).length === 0) {
    return finishBody(raw, [{ ...whole, text: whole.placeholder, is_file: true }], [whole], false);
  }

  let from = 0;
  let to = raw.length;
  const kept: Edit[] = [];
  const keptTail: Edit[] = [];
  let keepsFiles = false;
  if (base !== null && prefix > SCAN_MARGIN_BYTES && !events) {
    keepsFiles = base.keeps_files;
    // Back to where the token begins that the margin begins in: what is new may make a key of it.
    from = findTokenStart(raw, prefix - SCAN_MARGIN_BYTES);
    for (const edit of base.edits) {
      if (edit.start < from && edit.end > from) from = edit.start;
    }
    for (const edit of base.edits) {
      if (edit.end <= from) kept.push(edit);
    }
    const rest = Math.min(raw.length, base.raw.length) - prefix;
    const suffix =
      rest === 0 || cut ? 0 : measureCommonSuffix(base.raw, raw, base.raw.length, raw.length, rest);
    if (suffix > 2 * SCAN_MARGIN_BYTES) {
      const shift = raw.length - base.raw.length;
      to = raw.length - suffix + SCAN_MARGIN_BYTES;
      for (const edit of base.edits) {
        if (edit.start + shift < to && edit.end + shift > to) to = edit.end + shift;
      }
      for (const edit of base.edits) {
        if (edit.start + shift >= to)
          keptTail.push({ ...edit, start: edit.start + shift, end: edit.end + shift });
      }
    }
  }

  const part = from === 0 && to === raw.length ? raw : raw.subarray(from, to);
  if (!keepsFiles && mayHoldPlaceholder(part)) {
    if (kept.length + keptTail.length > 0) return editBody(raw, null, 0, search);
    keepsFiles = true;
  }
  const files: FoundAttachment[] = [];
  const edits: Edit[] = [];
  for (const file of keepsFiles ? [] : findAttachments(raw, from, to)) {
    const { start, end, content } = file;
    const inside = findSecrets(content, wanted, work);
    if (inside.length === 0) {
      // Further ones stay in the body.
      if (files.length === FILES_PER_BODY) continue;
      files.push(file);
      edits.push({ start, end, text: file.placeholder, is_file: true });
    } else {
      // It stays in the body, in standard base64 whatever it was in: what it said is gone anyway.
      const text = leaveRest(Buffer.from(maskRanges(content, inside).toString('base64'), 'latin1'));
      edits.push({ start, end, text, is_file: false });
    }
  }
  const attachments = edits.slice();
  let secrets = findSecrets(raw, wanted, work, from, to);
  if (cut) secrets.push(...findCutNeedle(raw, needles.bytes, work));
  if (events) secrets = secrets.concat(findSplitSecrets(raw, wanted, work));
  let next = 0;
  for (const range of mergeRanges(secrets)) {
    if (range.start < from) continue;
    // It goes on into what was not looked at.
    if (range.end > to) return editBody(raw, null, 0, search);
    while (next < attachments.length && attachments[next]!.end <= range.start) next++;
    if (next < attachments.length && attachments[next]!.start < range.end) continue;
    if (edits.length >= MASKS_PER_BODY) throw new WorkExceededError();
    edits.push({ start: range.start, end: range.end, text: MASK_BYTES, is_file: false });
  }
  if (edits.length > 1) edits.sort((a, b) => a.start - b.start);
  const last = edits.at(-1);
  const tail = last === undefined ? keptTail : keptTail.filter((edit) => edit.start >= last.end);
  return finishBody(
    raw,
    kept.length + tail.length === 0 ? edits : [...kept, ...edits, ...tail],
    files,
    keepsFiles,
  );
}

/** Where the token begins that goes on at `at`. */
function findTokenStart(bytes: Buffer, at: number): number {
  let start = at;
  while (start > 0 && (KINDS[bytes[start - 1]!]! & CHARACTERS.token) !== 0) start--;
  return start;
}

/** The last media type that is neither of frames nor of events nor of files, whatever the body's size: nearly all are of the same. */
let textType: string | null = null;

/** Whether the body is text, in one piece. */
function isOfText(raw: Buffer, contentType: string | null): boolean {
  if (contentType === textType && !beginsAsEvents(raw)) return true;
  if (isSearchedInParts(raw, contentType) || isBinary(raw, contentType)) return false;
  // Short ones are not judged by their type.
  const isJudged = raw.length >= ATTACHMENT_BYTES_MIN;
  if (isJudged && (contentType === null || !EVENT_STREAM_FRAMES.test(contentType))) textType = contentType;
  return true;
}

/** Whether secrets in this body may come in pieces. */
function isSearchedInParts(raw: Buffer, contentType: string | null): boolean {
  return (contentType !== null && SERVER_SENT_EVENTS.test(contentType)) || beginsAsEvents(raw);
}

function beginsAsEvents(raw: Buffer): boolean {
  // JSON is nearly all there is.
  if (raw.length === 0 || raw[0] === OPENING_BRACE) return false;
  return EVENT_BEGINNINGS.some((field) => field.equals(raw.subarray(0, field.length)));
}

/** The longest beginning of a needle that the bytes end with, if it is long enough to be told from a word. */
function findCutNeedle(bytes: Buffer, needles: readonly Buffer[], work: Work): ByteRange[] {
  let longest = 0;
  for (const needle of needles) longest = Math.max(longest, measureCutNeedle(bytes, needle, work));
  return longest < MIN_CREDENTIAL_LENGTH ? [] : [{ start: bytes.length - longest, end: bytes.length }];
}

/** The bytes with the mask in place of each range. */
function maskRanges(bytes: Buffer, ranges: ByteRange[]): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end } of mergeRanges(ranges)) {
    parts.push(bytes.subarray(at, start), MASK_BYTES);
    at = end;
  }
  parts.push(bytes.subarray(at));
  return Buffer.concat(parts);
}

function finishBody(raw: Buffer, edits: Edit[], files: FoundAttachment[], keepsFiles: boolean): PreparedBody {
  if (edits.length === 0) return { ...plainBody(raw), keeps_files: keepsFiles };
  const parts: Buffer[] = [];
  let at = 0;
  let hasFiles = false;
  for (const edit of edits) {
    parts.push(raw.subarray(at, edit.start), edit.text);
    at = edit.end;
    hasFiles = hasFiles || edit.is_file;
  }
  parts.push(raw.subarray(at));
  return {
    raw,
    stored: Buffer.concat(parts),
    edits,
    keeps_files: keepsFiles,
    has_files: hasFiles,
    new_files: files,
  };
}

/** Bytes that two bodies begin with alike. */
export function measureSharedPrefix(base: PreparedBody, raw: Buffer): number {
  return measureCommonPrefix(base.raw, raw);
}
