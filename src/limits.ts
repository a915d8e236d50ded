/**
 * Bounds that several folders need, although no folder could declare them that all of these may import. Also the
 * defaults of operator variables. Every other bound is declared in the module that it bounds, or in `limits.ts` of its
 * folder. `threads/limit-relations.ts` asserts the relations between bounds of several folders. Constants only; any
 * thread.
 */

import { strict as assert } from 'node:assert';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Defaults of operator variables, under the variables' names. `config.ts` reads the variables. */
export const DEFAULTS = {
  GW_MAX_QUEUE: 10_000,
  GW_MAX_QUEUE_BYTES: 256 * MIB,
  GW_MAX_CAPTURE_BYTES: 64 * MIB,
  MAX_BODY_BYTES: 5 * MIB,
  MIN_UPLOAD_BYTES_PER_SEC: 64,
  RATE_LIMIT_PER_SEC: 200,
  RATE_LIMIT_BURST: 400,
  AUTH_FAIL_RATE_PER_SEC: 5,
} as const;

/**
 * Maximum number of connections from one public address. Any number may come from loopback and private networks,
 * because proxies are there.
 */
export const PUBLIC_ADDRESS_CONNECTIONS = 1_000;

/** A tunnel through which no bytes have passed for this long ends at once when the service stops. */
export const TUNNEL_IDLE_MS = 1_000;

/** Largest head of a request. uWebSockets.js reads it from UWS_HTTP_MAX_HEADERS_SIZE when it loads. */
export const HTTP_HEAD_BYTES = 64 * KIB;
/**
 * Largest head of an upstream's answer. It may be larger than a request's head, because some providers set many
 * cookies.
 */
export const UPSTREAM_HEAD_BYTES = 256 * KIB;

/** How long requests in flight may take after SIGTERM. Then their connections are closed. */
export const DRAIN_DEADLINE_MS = 30_000;
/** How long a start waits for another process that still drains and then writes what it has captured. */
export const CLAIM_PATIENCE_MS = 2 * DRAIN_DEADLINE_MS;

/** Maximum number of Zstd frames of one body. Up to `free` frames are decompressed without a budget. */
export const ZSTD_FRAMES = { free: 256, most: 65_536 } as const;
/** Size from which on an image or document inside a body is stored once, by its SHA-256. */
export const ATTACHMENT_BYTES_MIN = KIB;

/** Maximum number of child runs that a captured run names. Further ones are only counted. */
export const NAMED_CHILD_RUNS = 50;

/** Maximum length of identifiers that callers choose (document 4, "v1"), in code points. */
export const ID_CHARACTERS = 128;
/**
 * Maximum number of rows that one page of a filtered list reads. A page that reaches the bound is short and has a
 * cursor.
 */
export const PAGE_SCAN_ROWS = 300;
/** Maximum length of a bearer credential. JWTs of large identity providers are shorter. */
export const CREDENTIAL_CHARACTERS = 8_192;

/**
 * How long a ticket for the live stream is valid, and its maximum length. A ticket is a part of the query, so it must
 * fit into a request's head (HTTP_HEAD_BYTES).
 */
export const STREAM_TICKET = { seconds: 60, characters: 32_768 } as const;

/** How long a request to the payment processor may take, including the retry of the processor's library. */
export const BILLING_REQUEST_MS = 10_000;

/** Maximum length of the name of a model, in code points. */
export const MODEL_CHARACTERS = 200;

/** Maximum number of UTF-16 units that are embedded, from the beginning of a text. */
export const EMBEDDING_TEXT_CHARACTERS = 4_096;

/**
 * Bounds of the dashboard's first page: the newest exchanges that are read, the parts into which the period is divided,
 * the newest runs whose verdicts are counted, and the longest period.
 */
export const CAPTURE_ACTIVITY = { exchanges: 50_000, parts: 48, runs: 5_000, hours_max: 720 } as const;
/**
 * Maximum number of exchanges that the index lacks and lists still show, the newest ones, and maximum length of each
 * path. A row of the capture file describes these exchanges.
 */
export const CAPTURE_NEWEST = { exchanges: 200, path_characters: 512 } as const;

assert(
  2 * DEFAULTS.GW_MAX_CAPTURE_BYTES <= DEFAULTS.GW_MAX_QUEUE_BYTES,
  'one exchange with both bodies at the cap fits into the writer queue',
);
assert(DEFAULTS.RATE_LIMIT_PER_SEC <= DEFAULTS.RATE_LIMIT_BURST, 'a full second is inside the burst');
assert(HTTP_HEAD_BYTES <= UPSTREAM_HEAD_BYTES, 'an upstream that echoes our head is still understood');
assert(ATTACHMENT_BYTES_MIN < DEFAULTS.GW_MAX_CAPTURE_BYTES, 'an attachment fits into a stored body');
