/**
 * The heads of an exchange in the form in which they may be stored: credentials masked in headers, path, query and
 * note. A client sends nearly the same heads each time, so the latest results are cached. Capture process.
 */
import { byteEngine } from '../../../native/byte-engine.ts';
import { mayNameRun } from '../../domain/client-run.ts';
import { type CapturedExchange, CREDENTIAL_FIELD, type RequestForm } from '../../domain/exchange.ts';
import { mergeRanges } from '../../redaction/byte-range.ts';
import { collectCredentials, findCredential, MIN_CREDENTIAL_LENGTH } from '../../redaction/credentials.ts';
import { findOpenSession, isCredentialHeader, isOpenSession } from '../../redaction/header-names.ts';
import { MASK, maskRangesOfText } from '../../redaction/mask.ts';
import { maskEmbeddedQueries, maskQuery } from '../../redaction/query.ts';
import { findSecrets } from '../../redaction/secret-search.ts';
import { Work } from '../../redaction/work.ts';
import { encodeHeadMeta, type HeadMeta } from './head-meta.ts';
import { MaskedLabels } from './masked-labels.ts';
import { type SecretSet, SecretSets, wantedOf } from './secret-set.ts';

/**
 * Number of bytes that may be read to find the secrets of one exchange: a fixed number, plus a number for each byte of
 * the exchange. A body that needs more is withheld, because it may contain secrets that were not found.
 */
export const REDACTION_WORK = { bytes: 4 << 20, for_each_byte: 96 } as const;

/** Maximum number of entries in each cache, of headers and of whole heads. A full cache is emptied. */
const MAX_REMEMBERED = 1_024;
/** Longer texts are not cached. */
const MAX_REMEMBERED_LENGTH = 16_384;

const NO_BYTES = new Uint8Array(0);

/** The masked heads of one exchange, and the secrets to search for in its bodies. */
interface PreparedHeads {
  secrets: SecretSet;
  meta: HeadMeta;
  response_headers: string;
  request_type: string | null;
  request_coding: string | null;
}

/** A request's stored headers, and the secrets in the headers and the query. */
interface RequestHeaders {
  headers: string;
  /** Whether nothing was masked except headers whose names denote credentials. */
  is_plain: boolean;
  secrets: SecretSet;
  /** Fingerprint of the request's credential; null if it has none. */
  sign: string | null;
}

/** A request and its masked head, which later requests of the same form reuse. */
interface RequestHead {
  exchange: CapturedExchange;
  secrets: SecretSet;
  meta: HeadMeta;
  /**
   * For further requests of the form: the JSON of `meta.headers`, split at the values that vary. null if a value was
   * masked because of its content, or if masking may depend on a value that varies. Each request is then masked
   * separately.
   */
  pieces: readonly string[] | null;
  type: string | null;
  coding: string | null;
}

/** Whether two heads are equal except for the headers and the run. */
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

export class HeadPreparer {
  readonly #redact: boolean;
  readonly #labels: MaskedLabels;
  readonly #runHeaders: readonly string[];
  readonly #requests = new Map<string, RequestHeaders>();
  /** Cached heads by form object, or by header array for callers that reuse one array for equal headers. */
  readonly #recent = new Map<RequestForm | readonly string[], RequestHead>();
  readonly #secretSets: SecretSets;

  /**
   * @param redact whether to mask texts that have the shape of a key, too
   * @param operatorSecrets masked in every exchange: credentials that the gateway adds to requests
   * @param dataDir folder of the secret that keeps masked labels distinct; null: a secret for the lifetime of this
   *   object
   * @param runHeaders the operator's headers that name runs, in lower case
   */
  constructor(
    redact: boolean,
    operatorSecrets: readonly string[] = [],
    dataDir: string | null = null,
    runHeaders: readonly string[] = [],
  ) {
    this.#redact = redact;
    this.#secretSets = new SecretSets(operatorSecrets);
    this.#labels = new MaskedLabels(dataDir);
    this.#runHeaders = runHeaders;
  }

  /**
   * Masks the heads of an exchange, and finds the secrets to search for in its bodies.
   * @param work the work limit of the exchange; if the answer's head is searched, its length is added to the limit
   * @throws {import('../../redaction/work.ts').WorkExceededError} if masking exceeds the limit
   */
  prepare(exchange: CapturedExchange, work: Work): PreparedHeads {
    const known = this.#recall(exchange);
    const { secrets, type, coding } = known;
    const answer = maskHeaders(exchange.response_headers);
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
    return { secrets, meta, response_headers: responseHeaders, request_type: type, request_coding: coding };
  }

  /** Returns the cached head of the request's form, or a new one from this request. */
  #recall(exchange: CapturedExchange): RequestHead {
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
    const { headers, is_plain, secrets, sign } = this.#readRequestHeaders(exchange);
    const work = new Work(REDACTION_WORK.bytes);
    let runId = exchange.run_id;
    let note = exchange.note;
    let path = exchange.path;
    let query = maskQuery(exchange.query);
    work.allow((path.length + query.length) * REDACTION_WORK.for_each_byte);
    const together = `${runId ?? ''}\n${note}\n${path}\n${query}`;
    if (maskHead(together, secrets, this.#redact, work) !== together) {
      if (runId !== null) runId = this.#labels.tellApart(maskHead(runId, secrets, this.#redact, work), runId);
      note = maskHead(note, secrets, this.#redact, work);
      path = maskHead(path, secrets, this.#redact, work);
      query = maskHead(query, secrets, this.#redact, work);
    }
    const end = sign === null ? '' : `\n${CREDENTIAL_FIELD}\n${sign}`;
    const meta = encodeHeadMeta(exchange, runId, note, path, query, headers + end);
    // The cache keeps no bodies, because their memory is reused.
    const route = { ...exchange, response_headers: [], request_body: NO_BYTES, response_body: NO_BYTES };
    return {
      exchange: route,
      secrets,
      meta,
      pieces: is_plain ? cutVarying(exchange, headers, end) : null,
      type: findHeader(exchange.request_headers, 'content-type'),
      coding: joinHeader(exchange.request_headers, 'content-encoding'),
    };
  }

  #readRequestHeaders(exchange: CapturedExchange): RequestHeaders {
    const key = `${exchange.query}\n\n${exchange.request_headers.join('\n')}`;
    const known = this.#requests.get(key);
    if (known !== undefined) return known;
    const found = collectCredentials(exchange.request_headers, exchange.query);
    const secrets = this.#secretSets.intern(found);
    const text = maskHeaders(exchange.request_headers, findOpenSession(exchange.request_headers));
    const work = new Work(REDACTION_WORK.bytes + text.length * REDACTION_WORK.for_each_byte);
    const masked = maskHead(text, secrets, this.#redact, work);
    const headers = masked === text ? text : this.#tellSessionsApart(masked, text);
    const credential = findCredential(exchange.request_headers, exchange.query);
    const sign = credential === null ? null : this.#labels.signOf(credential);
    const read = { headers, is_plain: headers === text, secrets, sign };
    if (this.#requests.size >= MAX_REMEMBERED) this.#requests.clear();
    if (key.length <= MAX_REMEMBERED_LENGTH) this.#requests.set(key, read);
    return read;
  }

  /** Gives masked session ids distinct texts if they differ, so that sessions can be told apart. */
  #tellSessionsApart(masked: string, text: string): string {
    const lines = masked.split('\n');
    const came = text.split('\n');
    if (lines.length !== came.length) return masked;
    for (let at = 1; at < lines.length; at += 2) {
      if (mayNameRun(came[at - 1]!.toLowerCase(), this.#runHeaders))
        lines[at] = this.#labels.tellApart(lines[at]!, came[at]!);
    }
    return lines.join('\n');
  }
}

/** Finds the value of a header, the last one if it occurs more than once; null if it is missing. */
export function findHeader(headers: readonly string[], name: string): string | null {
  for (let i = headers.length - 2; i >= 0; i -= 2) {
    const key = headers[i]!;
    if (key === name || (key.length === name.length && key.toLowerCase() === name)) return headers[i + 1]!;
  }
  return null;
}

/** Returns all values of a header in order, joined with a comma; null if it is missing. */
export function joinHeader(headers: readonly string[], name: string): string | null {
  let joined: string | null = null;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const key = headers[i]!;
    if (key !== name && (key.length !== name.length || key.toLowerCase() !== name)) continue;
    joined = joined === null ? headers[i + 1]! : `${joined},${headers[i + 1]}`;
  }
  return joined;
}

/** Masks secrets and, if `shapes` is true, key shapes in a part of a head. */
function maskHead(text: string, secrets: SecretSet, shapes: boolean, work: Work): string {
  if (text.length < MIN_CREDENTIAL_LENGTH) return text;
  // Each character becomes one byte, also those beyond latin1, because only positions are used.
  const bytes = Buffer.from(text, 'latin1');
  return maskRangesOfText(text, mergeRanges(findSecrets(bytes, wantedOf(secrets, shapes), work)));
}

/**
 * Joins headers as `name
 * value
 * …`, with credentials masked. Neither names nor values can contain a newline.
 * @param session for a request's headers: the result of `findOpenSession`
 */
function maskHeaders(headers: readonly string[], session: string | null = null): string {
  let text = '';
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i]!;
    let value = headers[i + 1]!;
    if (value !== '' && isCredentialHeader(name) && !isOpenSession(name, value, session)) value = MASK;
    else if (value.includes('=')) value = maskEmbeddedQueries(value);
    text += i === 0 ? `${name}\n${value}` : `\n${name}\n${value}`;
  }
  return text;
}

/**
 * Splits headers, as JSON, at the values that vary. The caller makes sure that no value is partly masked.
 * @param end JSON that follows the headers
 * @returns null if the headers cannot be cut so, for example because a varying one holds a credential or is in
 *   READ_HEADERS
 */
function cutVarying(
  { request_form, request_headers }: CapturedExchange,
  masked: string,
  end: string,
): readonly string[] | null {
  const varying = request_form?.varying ?? [];
  if (varying.length === 0) return [JSON.stringify(masked + end)];
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
        .join('') + end,
    )}"`,
  );
  return pieces;
}

/**
 * A cached head has the values of these headers, so the head cannot be reused for requests in which one of these values
 * varies.
 */
const READ_HEADERS = new Set(['content-type', 'content-encoding']);

/** A text that JSON writes unchanged. */
const PLAIN_TEXT = /^[ !#-[\]-~]*$/;

/** Encodes a text as the inside of a JSON string. */
function encodePiece(text: string): string {
  return PLAIN_TEXT.test(text) ? text : JSON.stringify(text).slice(1, -1);
}

/** Whether the request's head equals another request's head of the same form. */
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
 * Joins the values that differ from the known request and are long enough to contain a secret, so that they can be
 * searched.
 * @returns null if the request must be masked separately
 */
function readOwn(
  known: CapturedExchange,
  { run_id, request_form, request_headers }: CapturedExchange,
): string | null {
  let text = known.run_id === run_id || run_id === null ? '' : `\n${run_id}`;
  if (request_form === undefined) return text;
  for (const at of request_form.varying) {
    const value = request_headers[at]!;
    // The value may contain a query, in which parameter names mark secrets.
    if (value.includes('=')) return null;
    if (value.length >= MIN_CREDENTIAL_LENGTH) text += `\n${value}`;
  }
  return text;
}

/** Makes the head of a request from the cached one. The values that differ must contain no secrets. */
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

/** For longer texts, `isFreeOf` returns false without a check. */
const SCRATCH_BYTES = 8_192;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** Whether one quick check proves that the text contains no secret and no key shape. False for a long text. */
function isFreeOf(text: string, secrets: SecretSet): boolean {
  if (text.length > SCRATCH_BYTES) return false;
  // Characters beyond latin1 become one byte each, both in the text and in the secrets.
  const bytes = scratch.write(text, 0, 'latin1');
  return byteEngine.isPlain(scratch.subarray(0, bytes), secrets.packed_all, MORE_THAN_FITS);
}

/** Longer than any text, so base64 is not searched. */
const MORE_THAN_FITS = SCRATCH_BYTES + 1;
