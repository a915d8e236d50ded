/**
 * An exchange that is ready for storage except for the edits of its bodies, and the reasons why bodies are withheld.
 * Capture process.
 */
import type { CapturedExchange, WithheldCause } from '../../domain/exchange.ts';
import { Work, WorkExceededError } from '../../redaction/work.ts';
import { encodeHeadMeta, type HeadMeta } from './head-meta.ts';
import { NO_SECRETS, type SecretSet } from './secret-set.ts';

/** An exchange ready to be encoded. */
export interface PreparedExchange {
  exchange: CapturedExchange;
  secrets: SecretSet;
  head: HeadMeta;
  response_headers: string;
  request_type: string | null;
  response_type: string | null;
  response_coding: string | null;
  /** The bodies to edit. Their content-encoding was removed if secrets must be masked inside. */
  request_raw: Buffer;
  response_raw: Buffer;
  request_decoded: boolean;
  response_decoded: boolean;
  /** Whether a part of a body is missing. */
  truncated: boolean;
  /** Why a body is withheld; null if it is stored. Editing the bodies may still set them. */
  request_withheld: WithheldCause | null;
  response_withheld: WithheldCause | null;
  /** Counts the work to find secrets in the exchange, up to its limit. */
  work: Work;
}

export const NO_BODY = Buffer.alloc(0);

/** Returns the reason for withholding a body whose search ended with this error. */
export function causeOf(error: unknown): WithheldCause {
  return error instanceof WorkExceededError ? 'redaction_budget' : 'failed';
}

export function withholdResponse(prepared: PreparedExchange, cause: WithheldCause): void {
  prepared.response_withheld = cause;
  prepared.response_raw = NO_BODY;
  prepared.truncated = true;
}

const NONE_WITHHELD: readonly WithheldCause[] = Object.freeze([]);

/** Lists why bodies of the exchange are withheld, one reason for each such body. To be called after both are edited. */
export function listWithheld({
  request_withheld,
  response_withheld,
}: PreparedExchange): readonly WithheldCause[] {
  if (request_withheld === null && response_withheld === null) return NONE_WITHHELD;
  return [request_withheld, response_withheld].filter((cause) => cause !== null);
}

/** Makes an exchange without texts from client or upstream: fields like provider, method, status and times remain. */
export function withholdAll(exchange: CapturedExchange, cause: WithheldCause): PreparedExchange {
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

/** Whether a body may be cut off. */
export function isCut({ exchange, truncated }: PreparedExchange): boolean {
  return truncated || exchange.aborted;
}
