/**
 * What must never be stored, and how it is found: credential headers, secret query values, echoes of the credential
 * that a request carried, and the well-known shapes of keys. Pure rules on strings and bytes; runs on the capture
 * writer's actor thread.
 *
 * A masked value is replaced whole by `[redacted]`: no first or last characters, which would help to guess a key.
 *
 * Speed. A regular expression with all key shapes costs about 3 ns a byte. Every shape holds a run of at least
 * 16 letters, digits, `-` or `_`, so the byte engine (`native/`) looks for such runs and for what makes one suspect, and
 * the shapes are applied to those runs alone: a few tenths of a nanosecond a byte.
 *
 * Sources: RFC 9110 (Authorization), RFC 6750 (Bearer), RFC 7617 (Basic), RFC 6265 (Cookie), RFC 7468 (PEM),
 * RFC 7519 (JWT); AWS Signature Version 4; the prefixes that the providers publish for secret scanning.
 */

import { type ByteEngine, byteEngine, packNeedles } from '../../native/byte-engine.ts';
import { isCredentialName } from './credential-name.ts';

/** What stands in the stored copy where a secret stood. */
export const MASK = '[redacted]';

/** Shorter values are not looked for in other places: they would mask ordinary words. */
export const MIN_CREDENTIAL_LENGTH = 8;

/** Most distinct secrets taken from one request; a request with more (hundreds of cookies) keeps the longest. */
const MAX_CREDENTIALS = 64;

/** No key shape is longer than this; a caller that scans part of a body starts this much before the part. */
export const SCAN_MARGIN_BYTES = 8_192;

/** A half-open range of byte offsets. */
export interface ByteRange {
  start: number;
  end: number;
}

// ---------------------------------------------------------------------------------------------------------------
// Headers

const CREDENTIAL_HEADERS = new Set([
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'x-amz-security-token',
  'cookie',
  'set-cookie',
]);

/** Names of headers that end like a credential. */
const CREDENTIAL_HEADER =
  /(?:^|[-_.])(?:(?:api|access|secret|private|subscription|auth|functions|master|account|service)[-_]?key|(?:\w*)token|secret|authorization|auth|passw(?:or)?d|passphrase|credentials?|signature|jwt|cookie2?)$/;

/** Names that count or limit tokens rather than carry one. */
const COUNTING_NAME = /rate-?limit|usage|count|quota|limit|remaining|reset|budget|consumed|billed/;

const headerVerdicts = new Map<string, boolean>();

/**
 * Whether a header's value is a credential: the named ones, and any whose name ends like one (`x-acme-api-key`,
 * `x-vault-token`) or is called so anywhere, but not those that count or limit (`x-ratelimit-token`).
 * @param name in any case
 */
export function isCredentialHeader(name: string): boolean {
  const known = headerVerdicts.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  const verdict =
    CREDENTIAL_HEADERS.has(lower) ||
    (CREDENTIAL_HEADER.test(lower) && !COUNTING_NAME.test(lower)) ||
    isCredentialName(name);
  if (headerVerdicts.size >= 2_048) headerVerdicts.clear();
  headerVerdicts.set(name, verdict);
  return verdict;
}

// ---------------------------------------------------------------------------------------------------------------
// Query

const SECRET_QUERY_NAMES = new Set([
  'key',
  'access_token',
  'sig',
  'signature',
  'x-amz-signature',
  'x-amz-credential',
  'x-amz-security-token',
  // Beyond the contract's list; names like `token`, `api_key` and `client_secret` are known as such.
  'x-goog-signature',
  'x-goog-credential',
]);

/** Percent-decodes bytewise (latin1), as often as something is left to decode but at most four times. */
function decodeName(raw: string): string {
  let name = raw;
  for (let round = 0; round < 4 && name.includes('%'); round++) {
    const next = name.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) =>
      String.fromCharCode(parseInt(hex, 16)),
    );
    if (next === name) break;
    name = next;
  }
  return name.replaceAll('+', ' ').trim();
}

/** Whether a query parameter's value must never be stored, however its name is percent-encoded or cased. */
export function isSecretQueryName(raw: string): boolean {
  const name = decodeName(raw);
  return SECRET_QUERY_NAMES.has(name.toLowerCase()) || isCredentialName(name);
}

/** Splits a raw query on `&` and `;`, keeping the separators, so that joining gives the query back. */
function splitQuery(query: string): string[] {
  return query.split(/([&;])/);
}

/**
 * The query with every secret value masked; everything else as it was sent.
 * @param query raw, without `?`
 */
export function maskQuery(query: string): string {
  if (query === '') return query;
  let changed = false;
  const parts = splitQuery(query).map((part) => {
    const equals = part.indexOf('=');
    if (equals < 0 || equals === part.length - 1 || !isSecretQueryName(part.slice(0, equals))) return part;
    changed = true;
    return `${part.slice(0, equals + 1)}${MASK}`;
  });
  return changed ? parts.join('') : query;
}

/** A URL's query inside other text, as `location` and `referer` hold it. */
const EMBEDDED_QUERY = /([?&;])([^=&;#\s"'<>]{1,128})=([^&;#\s"'<>]+)/g;

/** Masks secret query values of URLs that stand inside a header value (`location`, `referer`, `link`). */
export function maskEmbeddedQueries(text: string): string {
  if (!text.includes('=') || !/[?&]/.test(text)) return text;
  return text.replace(EMBEDDED_QUERY, (whole, separator: string, name: string) =>
    isSecretQueryName(name) ? `${separator}${name}=${MASK}` : whole,
  );
}

// ---------------------------------------------------------------------------------------------------------------
// The credentials of one request, and the forms in which an answer may echo them

/** Adds a secret if it is long enough to be looked for. */
function addSecret(into: Set<string>, value: string): void {
  const trimmed = value.trim();
  if (trimmed.length >= MIN_CREDENTIAL_LENGTH && trimmed !== MASK) into.add(trimmed);
}

function addCookies(into: Set<string>, header: string): void {
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=');
    const value = (equals < 0 ? pair : pair.slice(equals + 1)).trim();
    addSecret(into, value);
    if (value.startsWith('"') && value.endsWith('"')) addSecret(into, value.slice(1, -1));
    if (value.includes('%')) addSecret(into, decodeValue(value));
  }
}

/** Percent-decodes a value to UTF-8 text; the value itself when it is not well-formed. */
function decodeValue(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}

function addHeaderCredential(into: Set<string>, name: string, value: string): void {
  if (name === 'cookie') {
    addCookies(into, value);
    return;
  }
  const scheme = /^([A-Za-z][\w-]*)\s+(\S.*)$/.exec(value);
  if (scheme === null) {
    addSecret(into, value);
    return;
  }
  const token = scheme[2]!.trim();
  addSecret(into, token);
  // A short token after the scheme is still found with its scheme before it.
  if (token.length < MIN_CREDENTIAL_LENGTH) addSecret(into, value);
  const kind = scheme[1]!.toLowerCase();
  if (kind === 'basic') {
    const pair = Buffer.from(token, 'base64').toString('latin1');
    addSecret(into, pair);
    const colon = pair.indexOf(':');
    if (colon >= 0) addSecret(into, pair.slice(colon + 1));
  } else if (token.includes('=')) {
    // Parameters, as in Digest and AWS4-HMAC-SHA256.
    for (const match of token.matchAll(/(?:signature|credential|response)="?([^",\s]+)"?/gi))
      addSecret(into, match[1]!);
  }
}

/**
 * The secrets that a request carried: values of credential headers (the token after the scheme, a Basic pair decoded
 * and its password, each cookie's value) and secret query values, raw and decoded. Values under 8 characters are left
 * out; at most 64, the longest first.
 * @param headers flat [name, value, …], latin1
 * @param query raw, without `?`
 */
export function collectCredentials(headers: readonly string[], query: string): string[] {
  const secrets = new Set<string>();
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (isCredentialHeader(headers[i]!))
      addHeaderCredential(secrets, headers[i]!.toLowerCase(), headers[i + 1]!);
  }
  if (query.includes('=')) {
    for (const part of splitQuery(query)) {
      const equals = part.indexOf('=');
      if (equals < 0 || !isSecretQueryName(part.slice(0, equals))) continue;
      const value = part.slice(equals + 1);
      addSecret(secrets, value);
      addSecret(secrets, decodeValue(value));
      addSecret(secrets, decodeValue(value.replaceAll('+', ' ')));
    }
  }
  const longestFirst = [...secrets].sort((a, b) => b.length - a.length);
  return longestFirst.slice(0, MAX_CREDENTIALS);
}

const PLAIN = /^[A-Za-z0-9_.~-]+$/;

/**
 * The forms in which a secret may stand in an answer: as it is, JSON-escaped (also with `\/`, and with `<>&'=+` as
 * `\u00xx`), percent-encoded in upper and lower case and as a form field, HTML-escaped, and base64 of it.
 * @returns byte strings (latin1), longest first
 */
export function credentialForms(secret: string): string[] {
  const forms = new Set<string>([secret]);
  const utf8 = Buffer.from(secret, 'utf8').toString('latin1');
  forms.add(utf8);
  forms.add(Buffer.from(secret, 'latin1').toString('base64').replace(/=+$/, ''));
  if (!PLAIN.test(secret)) {
    const json = JSON.stringify(secret).slice(1, -1);
    forms.add(json);
    forms.add(json.replaceAll('/', '\\/'));
    forms.add(secret.replaceAll('/', '\\/'));
    const escaped = json.replace(/[<>&'=+]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
    forms.add(escaped);
    forms.add(escaped.replace(/\\u00../g, (c) => `\\u${c.slice(2).toUpperCase()}`));
    forms.add(json.replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`));
    const percent = Buffer.from(secret, 'latin1')
      .toString('latin1')
      .replace(/[^A-Za-z0-9_.~-]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
    forms.add(percent);
    forms.add(percent.replace(/%../g, (c) => c.toLowerCase()));
    forms.add(percent.replaceAll('%20', '+'));
    // encodeURI leaves these as they are.
    forms.add(
      percent.replace(/%(3B|2C|2F|3F|3A|40|26|3D|2B|24|23|21|27|28|29|2A)/g, (_, h: string) =>
        String.fromCharCode(parseInt(h, 16)),
      ),
    );
    forms.add(
      secret.replace(
        /[&<>"']/g,
        (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]!,
      ),
    );
    // As a form field, where `~` is escaped too.
    forms.add(new URLSearchParams({ s: secret }).toString().slice(2));
    // JSON inside JSON, and that in JSON again: a tool's result quoted in an answer that somebody else quotes.
    for (let depth = 0; depth < 2; depth++) {
      for (const form of [...forms]) forms.add(JSON.stringify(form).slice(1, -1));
    }
  }
  return [...forms]
    .filter((form) => form.length >= MIN_CREDENTIAL_LENGTH)
    .sort((a, b) => b.length - a.length);
}

// ---------------------------------------------------------------------------------------------------------------
// Key shapes

const MIN_RUN = 16;

/** 1 for what a Bearer token or base64 may hold. */
const TOKEN_BYTE = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  if (/[A-Za-z0-9._~+/=-]/.test(String.fromCharCode(byte))) TOKEN_BYTE[byte] = 1;
}

/** What every shape begins with; those that a dot must follow apart. */
const BEGINNINGS =
  'sk-|AIza|A[KS]IA|ABSK|gsk_|xai-|hf_|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox|xapp-|svc_|npm_|[rsp]k_|whsec_|eyJ|pplx-|r8_|nvapi-|tvly-|dop_v1_|shp[a-z]{2}_|pypi-|bedrock-api-key-|AGE-SECRET';
/** What shapes begin with that count where a token begins alone: these are common within words, or short. */
const FIRST_WORDS =
  'lin_api_|lin_oauth_|ntn_|secret_|dapi|do[or]_v1_|glsa_|PMAK-|AT[AC]TT3|sbp_|sb_secret_|fm1[ar]_|fm2_|fo1_|GOCSPX-|IQoJb3JpZ2lu|FwoGZXIvYXdz|tgp_v1_|lsv2_|NRAK-|HRKU-|xkeysib-|sntryu_|dckr_|figd_|pscale_|e2b_|tskey-|rubygems_';
/** One of these stands in every run that can be, or begin, a key of a known shape. */
const HINT = new RegExp(`${BEGINNINGS}|(?:SG|ya29)$|^(?:.{1,2}|.{5})?(?:${FIRST_WORDS})`);
/** Where a shape may begin: they are tried there and nowhere else, since trying them at every byte is dear. */
const BEGINNING = new RegExp(
  `csk-|pcsk_|glc_eyJ|${BEGINNINGS}|${FIRST_WORDS}|SG\\.|ya29\\.|hv[sbr]\\.|dp\\.|atlasv1\\.|sl\\.|sk\\.eyJ|dt0[a-z]`,
  'g',
);
/** Characters of the longest of them. */
const BEGINNING_CHARACTERS = 16;
/** What may stand before a run that follows a dot, and belongs to its key: `SG.`, `dp.st.prd.`. */
const DOTTED_CHARACTERS = 12;
/** What look-behinds look at: `\\u000a`. */
const ESCAPE_CHARACTERS = 8;

const ATLAS_ID = /^[A-Za-z0-9]{14}\.$/;

/** Where a token begins: behind what is none of its characters, or behind an escape. */
const EDGE = '(?:(?<![A-Za-z0-9_-])|(?<=\\\\[nrtbf"/]|%[0-9A-Fa-f]{2}|\\\\u[0-9A-Fa-f]{4}))';
/** Base64 whose slashes may be escaped. */
const BASE64 = '(?:[A-Za-z0-9+_-]|\\\\?/)';

/**
 * The shapes. No look-behind but for the general `sk-` and what stands at the edge of a token: in JSON a key often follows
 * an escape, and `\nsk-ant-…` has a letter before it.
 */
const SHAPES = new RegExp(
  [
    'sk-(?:ant|proj|or|svcacct|admin|lf|None)-[A-Za-z0-9_-]{8,}',
    '(?<![A-Za-z0-9]|(?<!\\\\)-)sk-(?=[a-z_-]{0,200}[A-Z0-9])[A-Za-z0-9_-]{16,}',
    '(?<=\\\\[nrtbf"/]|%[0-9A-Fa-f]{2}|\\\\u[0-9A-Fa-f]{4})sk-(?=[a-z_-]{0,200}[A-Z0-9])[A-Za-z0-9_-]{16,}',
    'AIza[A-Za-z0-9_-]{30,}',
    'A[KS]IA[A-Z0-9]{16,}',
    'ABSK[A-Za-z0-9+/_-]{20,}={0,2}',
    'bedrock-api-key-[A-Za-z0-9+/_-]{16,}={0,2}',
    '(?:gsk|hf|r8)_[A-Za-z0-9_-]{16,}',
    '(?:xai|pplx|nvapi|tvly)-[A-Za-z0-9_-]{16,}',
    'gh[pousr]_[A-Za-z0-9]{16,}',
    'github_pat_[A-Za-z0-9_]{16,}',
    'gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent)-[A-Za-z0-9_-]{16,}(?:\\.[A-Za-z0-9_-]+)*',
    'xox[a-z](?:\\.xox[a-z])?-[A-Za-z0-9-]{10,}',
    'xapp-[A-Za-z0-9-]{12,}',
    'svc_(?:live|test)_[A-Za-z0-9]{12,}',
    'npm_[A-Za-z0-9]{30,}',
    '(?:[rsp]k)_(?:live|test)_[A-Za-z0-9]{10,}',
    'whsec_[A-Za-z0-9+/_-]{10,}={0,2}',
    'eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]*\\.[A-Za-z0-9_-]*(?:\\.[A-Za-z0-9_-]*){0,2}',
    '(?:dop_v1|shp[a-z]{2})_[A-Za-z0-9]{16,}',
    'pypi-[A-Za-z0-9_-]{16,}',
    'SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{16,}',
    'ya29\\.[A-Za-z0-9_-]{16,}',
    'AGE-SECRET-KEY-1[A-Z0-9]{40,}',
    'atlasv1\\.[A-Za-z0-9_=-]{40,}',
    `${EDGE}(?:${[
      'lin_(?:api|oauth)_[A-Za-z0-9]{32,}',
      'ntn_[A-Za-z0-9]{40,}',
      // Names in code begin like that too.
      'secret_(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{43}(?![A-Za-z0-9_-])',
      'dapi[0-9a-f]{32}(?:-[0-9]+)?(?![A-Za-z0-9_-])',
      'do[or]_v1_[A-Za-z0-9]{32,}',
      'glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}',
      `glc_eyJ${BASE64}{24,}={0,2}`,
      'PMAK-[a-f0-9]{24}-[a-f0-9]{34}',
      'AT[AC]TT3[A-Za-z0-9_=-]{60,}',
      'sbp_(?:oauth_)?[a-f0-9]{40}',
      'sb_secret_[A-Za-z0-9_-]{20,}',
      `fm(?:1[ar]|2)_${BASE64}{60,}={0,3}`,
      'fo1_[A-Za-z0-9_-]{43}',
      'GOCSPX-[A-Za-z0-9_-]{20,}',
      `(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)${BASE64}{60,}={0,2}`,
      'pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{32,}',
      'tgp_v1_[A-Za-z0-9_-]{32,}',
      'lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}',
      'NRAK-[A-Za-z0-9]{27,}',
      'HRKU-[A-Za-z0-9_-]{30,}',
      'xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}',
      'sntryu_[a-f0-9]{64}',
      'dckr_[po]at_[A-Za-z0-9_-]{20,}',
      'figd_[A-Za-z0-9_-]{36,}',
      'pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}',
      'e2b_[a-f0-9]{40}',
      'tskey-[a-z]+-[A-Za-z0-9]{8,}-[A-Za-z0-9]{16,}',
      'rubygems_[a-f0-9]{48}',
      'csk-[a-z0-9]{40,}',
      'sk_[a-f0-9]{48}(?![A-Za-z0-9_-])',
      'hv[sbr]\\.[A-Za-z0-9_-]{20,}',
      'dp\\.(?:pt|ct|sa|scim|audit|st(?:\\.[a-z0-9_-]{1,5})?)\\.[A-Za-z0-9]{36,}',
      'sl\\.(?:u\\.)?[A-Za-z0-9_-]{100,}',
      'sk\\.eyJ[A-Za-z0-9_-]{20,}\\.[A-Za-z0-9_-]{16,}',
      'dt0[a-z][0-9]{2}\\.[A-Za-z0-9]{24}\\.[A-Za-z0-9]{64}',
    ].join('|')})`,
  ].join('|'),
  'y',
);

const BEARER_BEFORE = /(?:bearer|authorization["'\\]*\s*[:=]\s*["'\\]*basic)(?:\s|%20|\+|\\[tn])+$/i;
const LABEL_BEFORE =
  /(?:secret_?access_?key|x-amz-security-token|aws_?session_?token|client_?secret)(?:["'\\\s:=]|%3[ad]|%22|%20)*$/i;

/**
 * What else a key is called, with `:` or `=` behind it, in JSON (escaped too), settings and commands. Every one ends in
 * `key`, `token`, `secret` or `authorization`, by which the byte engine knows a suspect. The tokens of pages and places,
 * which an agent needs again, are not among them, nor is a secret's name in an ARN.
 */
const KEY_NAME =
  '(?:(?:api|secret|private|access|account|subscription|signing|encryption|master)[_-]?key|(?:access|refresh|auth|authorization|api|bearer|session|secret)[_-]?token|[a-z0-9][_-]?secret|["\'](?:secret|authorization)(?=\\\\*["\']))';
const KEY_NAME_BEFORE = new RegExp(`${KEY_NAME}["'\\\\\\s]*[:=]["'\\\\\\s:=]*$`, 'i');
/** Characters of a name that are looked at: the longest has fewer. */
const KEY_NAME_CHARACTERS = 24;
/** 1 for what may stand between a name and its value. */
const BETWEEN = new Uint8Array(256);
for (const char of '"\'\\ \t\r\n:=') BETWEEN[char.charCodeAt(0)] = 1;

/** Whether the text ends with the name of a key and what assigns a value to it. Latin1. */
function endsWithKeyName(text: string): boolean {
  let end = text.length;
  while (end > 0 && BETWEEN[text.charCodeAt(end - 1)] === 1) end--;
  // The expression costs more than all of this.
  const last = text[end - 1];
  if (end === text.length || last === undefined || !'yntYNT'.includes(last)) return false;
  return KEY_NAME_BEFORE.test(text.slice(Math.max(0, end - KEY_NAME_CHARACTERS)));
}
const GLUED_KEY_NAME = new RegExp(`${KEY_NAME}=`, 'i');
/** What stands behind such a name in code and examples is mostly words: `settings.ANTHROPIC_API_KEY`. */
function looksRandom(run: string): boolean {
  return /[0-9]/.test(run) && /[A-Za-z]/.test(run);
}

/** Bytes of context before a run in which a label or a scheme is looked for. */
const CONTEXT_BYTES = 64;

/**
 * Key-shaped secrets in bytes that hold text in any ASCII-compatible encoding.
 * @param bytes the whole body: matches may look a little before `from`
 * @param from first byte to scan
 * @param to end of the scan
 * @param engine for tests: the one that looks for suspects
 * @returns ranges in rising order, not overlapping
 */
export function findKeyShapes(
  bytes: Buffer,
  from = 0,
  to = bytes.length,
  engine: ByteEngine = byteEngine,
): ByteRange[] {
  const found: ByteRange[] = [];
  let at = from;
  while (at + MIN_RUN <= to) {
    const count = engine.findSuspects(bytes, at, to, marks);
    for (let i = 0; i < count; i++) judgeRun(bytes, marks[1 + 2 * i]!, marks[2 + 2 * i]!, to, found);
    at = marks[0]!;
  }
  if (engine.findAnyNeedle(bytes, from, to, PEM_NEEDLE) >= 0) findPrivateKeys(bytes, from, to, found);
  return mergeRanges(found);
}

/** Where suspects are noted; more of them take another call. */
const marks = new Float64Array(129);

/** Applies the shapes and the labels to one run. */
function judgeRun(bytes: Buffer, start: number, end: number, to: number, found: ByteRange[]): void {
  const run = bytes.toString('latin1', start, end);
  const isAfterDot = start >= 3 && bytes[start - 1] === 0x2e;
  if (isAfterDot || HINT.test(run)) {
    const first = isAfterDot ? Math.max(0, start - DOTTED_CHARACTERS) : start;
    const lead = Math.max(0, first - ESCAPE_CHARACTERS);
    // What begins beyond the run is not looked for: that would take longer than all else.
    const near = bytes.toString('latin1', lead, Math.min(to, end + BEGINNING_CHARACTERS));
    let text = '';
    BEGINNING.lastIndex = first - lead;
    let noToken = false;
    for (let hit = BEGINNING.exec(near); hit !== null; hit = BEGINNING.exec(near)) {
      if (lead + hit.index >= end) break;
      if (text === '') text = bytes.toString('latin1', lead, Math.min(to, end + SCAN_MARGIN_BYTES));
      // What follows the run decides whether a token can begin in it: one that did not match says it for the rest.
      const mayBeToken = lead + hit.index >= start && text.startsWith('eyJ', hit.index);
      if (mayBeToken && noToken) continue;
      SHAPES.lastIndex = hit.index;
      const match = SHAPES.exec(text);
      noToken ||= mayBeToken && match === null;
      BEGINNING.lastIndex = match === null ? hit.index + 1 : hit.index + match[0].length;
      if (match === null) continue;
      const from = lead + hit.index;
      // A token of Terraform begins with an id, before what it is known by.
      const id =
        hit[0] === 'atlasv1.' && ATLAS_ID.test(bytes.toString('latin1', Math.max(0, from - 15), from));
      found.push({ start: id ? from - 15 : from, end: lead + BEGINNING.lastIndex });
    }
  }
  // A scheme or a label before the token that this run is part of.
  let tokenStart = start;
  const lowest = Math.max(0, start - 2_048);
  while (tokenStart > lowest && TOKEN_BYTE[bytes[tokenStart - 1]!] === 1) tokenStart--;
  const before = bytes[tokenStart - 1];
  // At the beginning of a line (a header's value, as we keep them) there is no label.
  if (before === 0x0a) return;
  const context = bytes.toString('latin1', Math.max(0, tokenStart - CONTEXT_BYTES), tokenStart);
  const isBearer = before === 0x20 || before === 0x09 || before === 0x6e || before === 0x74;
  const labelled =
    (isBearer && BEARER_BEFORE.test(context)) ||
    LABEL_BEFORE.test(context) ||
    (endsWithKeyName(context) && looksRandom(run));
  // `Bearer%20token` and `key=token`: the label is made of token bytes itself.
  const glued = labelled ? null : findGluedLabel(bytes.toString('latin1', tokenStart, start), run);
  if (!labelled && glued === null) return;
  if (glued !== null) tokenStart += glued.index + glued[0].length;
  let tokenEnd = end;
  while (tokenEnd < to && TOKEN_BYTE[bytes[tokenEnd]!] === 1) tokenEnd++;
  if (tokenEnd - tokenStart >= MIN_RUN) found.push({ start: tokenStart, end: tokenEnd });
}

/** @param text what of the token stands before the run */
function findGluedLabel(text: string, run: string): RegExpExecArray | null {
  if (!text.includes('=')) return null;
  return GLUED_LABEL.exec(text) ?? (looksRandom(run) ? GLUED_KEY_NAME.exec(text) : null);
}

const GLUED_LABEL =
  /(?:secret_?access_?key|x-amz-security-token|x-amz-signature|access_token|client_secret)=/i;

/** What the first line of every PEM private key ends with. */
export const PEM_TAIL = Buffer.from('PRIVATE KEY-----', 'latin1');
const PEM_NEEDLE = packNeedles([PEM_TAIL]);
const PEM_END = Buffer.from('-----END', 'latin1');

/** Bytes of a PEM body whose end is missing: base64, white space, and the escapes that JSON makes of a newline. */
const PEM_BODY = new Uint8Array(256);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \r\n\t') {
  PEM_BODY[char.charCodeAt(0)] = 1;
}

/** PEM private keys, whole, with real newlines or with escaped ones. */
function findPrivateKeys(bytes: Buffer, from: number, to: number, found: ByteRange[]): void {
  let hit = bytes.indexOf(PEM_TAIL, from);
  while (hit >= 0 && hit < to) {
    const lead = Math.max(0, hit - 48);
    const begin = bytes.toString('latin1', lead, hit).lastIndexOf('-----BEGIN');
    let next = hit + PEM_TAIL.length;
    if (begin >= 0) {
      const limit = Math.min(bytes.length, hit + SCAN_MARGIN_BYTES - 128);
      const close = bytes.subarray(next, limit).indexOf(PEM_END);
      let end = next;
      if (close >= 0) {
        const tail = bytes.toString('latin1', next + close, Math.min(bytes.length, next + close + 64));
        const marks = /^-----END[A-Z0-9 ]*-{0,5}/.exec(tail);
        end = next + close + (marks === null ? PEM_END.length : marks[0].length);
      } else {
        while (end < limit && PEM_BODY[bytes[end]!] === 1) end++;
      }
      found.push({ start: lead + begin, end });
      next = Math.max(next, end);
    }
    hit = bytes.indexOf(PEM_TAIL, next);
  }
}

/**
 * Every place where one of the needles stands.
 * @param needles byte strings to look for
 * @returns ranges in rising order, not overlapping
 */
export function findNeedles(
  bytes: Buffer,
  needles: readonly Buffer[],
  from = 0,
  to = bytes.length,
): ByteRange[] {
  const found: ByteRange[] = [];
  for (const needle of needles) {
    let hit = bytes.indexOf(needle, from);
    while (hit >= 0 && hit < to) {
      found.push({ start: hit, end: hit + needle.length });
      hit = bytes.indexOf(needle, hit + needle.length);
    }
  }
  return found.length > 1 ? mergeRanges(found) : found;
}

/** Sorted, with overlapping and touching ranges made one. */
export function mergeRanges(ranges: ByteRange[]): ByteRange[] {
  if (ranges.length < 2) return ranges;
  ranges.sort((a, b) => a.start - b.start || a.end - b.end);
  const merged: ByteRange[] = [ranges[0]!];
  for (let i = 1; i < ranges.length; i++) {
    const last = merged[merged.length - 1]!;
    const range = ranges[i]!;
    if (range.start < last.end) last.end = Math.max(last.end, range.end);
    else merged.push(range);
  }
  return merged;
}

/** Bytes of texts that are looked at together. */
const TOGETHER_BYTES = 8_192;
const together = Buffer.allocUnsafeSlow(TOGETHER_BYTES);
/** More base64 than fits: it is not asked for. */
const NO_BASE64 = TOGETHER_BYTES + 1;

/**
 * Whether there is surely no key shape in any of the texts, nor in any beginning of one: then `maskText` would give each back
 * as it is. One look at all of them, where each by itself costs as much.
 * @returns false also for texts of more than some kilobytes together
 */
export function areFreeOfKeys(texts: readonly string[], engine: ByteEngine = byteEngine): boolean {
  let at = 0;
  for (const text of texts) {
    if (at + text.length + 1 > TOGETHER_BYTES) return false;
    // Characters beyond latin1 become one byte each, as in `maskText`.
    at += together.write(text, at, 'latin1');
    // A line's end is in no token, and what stands at the beginning of a line has no label.
    together[at++] = 0x0a;
  }
  return engine.isPlain(together.subarray(0, at), PEM_NEEDLE, NO_BASE64);
}

/**
 * A text (header block, path, note) without the given secrets and, if wanted, without key-shaped parts.
 * @param text latin1 or any; bytes above 0x7f are kept as they are
 */
export function maskText(text: string, needles: readonly string[], shapes: boolean): string {
  let masked = text;
  for (const needle of needles) {
    if (masked.includes(needle)) masked = masked.replaceAll(needle, MASK);
  }
  if (!shapes || masked.length < MIN_RUN) return masked;
  // Characters beyond latin1 become one byte each here; only positions are used.
  const ranges = findKeyShapes(Buffer.from(masked, 'latin1'));
  if (ranges.length === 0) return masked;
  let out = '';
  let at = 0;
  for (const range of ranges) {
    out += masked.slice(at, range.start) + MASK;
    at = range.end;
  }
  return out + masked.slice(at);
}

/**
 * A value of JSON as it may be stored: key shapes in its texts and names masked, and what stands under a name like
 * `clientSecret` or `OPENAI_API_KEY` masked whole, however short and however deep.
 */
export function maskValue(value: unknown): unknown {
  return maskJson(value, false);
}

/** @param isSecret it stands under the name of a credential */
function maskJson(value: unknown, isSecret: boolean): unknown {
  if (typeof value === 'string') return isSecret && value !== '' ? MASK : maskText(value, [], true);
  if (typeof value === 'number') return isSecret ? MASK : value;
  if (Array.isArray(value)) return value.map((item) => maskJson(item, isSecret));
  if (typeof value !== 'object' || value === null) return value;
  const masked: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    // A number of tokens is a count, whatever it is called.
    const isCount = typeof item === 'number' && /token/i.test(name);
    // An assignment to `__proto__` would change what the object is.
    Object.defineProperty(masked, maskText(name, [], true), {
      value: maskJson(item, !isCount && (isSecret || isCredentialName(name))),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return masked;
}
