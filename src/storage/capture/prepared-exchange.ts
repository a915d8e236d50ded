/** An exchange that may be stored once its bodies are edited, and what of it is withheld. Capture process. */
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

export const NO_BODY = Buffer.alloc(0);

/** Why a body is withheld whose search ended like this. */
export function causeOf(error: unknown): WithheldCause {
  return error instanceof WorkExceededError ? 'redaction_budget' : 'failed';
}

export function withholdResponse(prepared: PreparedExchange, cause: WithheldCause): void {
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

/** A body may end in the middle of something. */
export function isCut({ exchange, truncated }: PreparedExchange): boolean {
  return truncated || exchange.aborted;
}
