/**
 * Who ended a failed exchange, and why: a closed list, which the gateway records and every reader shows. Pure; any
 * thread.
 */

/** Never remove or rename a word, because stored exchanges contain it. */
export const END_CAUSES = [
  'client_gone',
  'client_protocol',
  'upstream_status',
  'upstream_refused',
  'upstream_unreachable',
  'upstream_reset',
  'upstream_timeout',
  'upstream_tls',
  'upstream_name',
  'upstream_protocol',
  'upstream_failed',
  'gateway_stopped',
] as const;
export type EndCause = (typeof END_CAUSES)[number];

/** Sentence endings for "the exchange failed: ". */
const WORDS: Record<EndCause, string> = {
  client_gone: 'the client closed the connection before the answer was complete',
  client_protocol: 'the client sent a body of another length than announced',
  upstream_status: 'the upstream answered with an error status',
  upstream_refused: 'the upstream refused the connection',
  upstream_unreachable: 'there is no route to the upstream',
  upstream_reset: 'the upstream closed the connection before the answer was complete',
  upstream_timeout: 'the upstream was silent for too long',
  upstream_tls: 'no secure connection to the upstream could be made',
  upstream_name: "the upstream's name could not be resolved",
  upstream_protocol: 'the upstream sent something other than HTTP/1.1',
  upstream_failed: 'the connection to the upstream failed',
  gateway_stopped: 'the gateway stopped',
};

export function describeEnd(cause: EndCause): string {
  return WORDS[cause];
}

/** End causes by the code of a connection's error, which comes from the system, Node or the upstream client. */
const BY_CODE: Readonly<Record<string, EndCause>> = {
  ECONNREFUSED: 'upstream_refused',
  EHOSTUNREACH: 'upstream_unreachable',
  ENETUNREACH: 'upstream_unreachable',
  EHOSTDOWN: 'upstream_unreachable',
  ENETDOWN: 'upstream_unreachable',
  ECONNRESET: 'upstream_reset',
  ECONNABORTED: 'upstream_reset',
  EPIPE: 'upstream_reset',
  ETIMEDOUT: 'upstream_timeout',
  ENOTFOUND: 'upstream_name',
  EPROTO: 'upstream_tls',
  CERT_HAS_EXPIRED: 'upstream_tls',
  CERT_NOT_YET_VALID: 'upstream_tls',
  HOSTNAME_MISMATCH: 'upstream_tls',
  BAD_ANSWER: 'upstream_protocol',
  BAD_UPLOAD: 'client_protocol',
  CLOSED: 'gateway_stopped',
};

const TLS_CODE =
  /^(?:ERR_(?:TLS|SSL)_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|CRL_|INVALID_CA|PATH_LENGTH)/;
const NAME_CODE = /^(?:EAI_|E(?:NODATA|SERVFAIL|BADNAME|BADRESP)$)/;
const PARSER_CODE = /^HPE_/;

/** Finds the cause for the error code of a connection to an upstream; `upstream_failed` for an unknown code. */
export function findEndCause(code: string): EndCause {
  const known = BY_CODE[code];
  if (known !== undefined) return known;
  if (TLS_CODE.test(code)) return 'upstream_tls';
  if (NAME_CODE.test(code)) return 'upstream_name';
  return PARSER_CODE.test(code) ? 'upstream_protocol' : 'upstream_failed';
}
