/**
 * The form in which a decoder takes a stored exchange, and what it finds there. The decoder itself is passed in: this folder
 * knows no wire format. Any thread.
 */
import type { SideKind } from '../../domain/child-kind.ts';
import { type ApiShape, type ExchangeEntry, unknownUsage } from '../../domain/exchange.ts';
import type { ExchangeTexts } from '../../domain/placed-text.ts';
import type { StoredMeta } from './record.ts';

/** The stored copy as a decoder wants it. */
export interface StoredCopy {
  shape: ApiShape | null;
  path: string;
  status: number;
  /** Flat [name, value, …]; without content-encoding when the stored body is no longer in it. */
  request_headers: readonly string[];
  response_headers: readonly string[];
  request_body: Uint8Array;
  response_body: Uint8Array;
  truncated: boolean;
}

/** What a decoder finds, and what links turns (src/providers/conversation.ts); what is not there counts as null. */
export interface DecodedEntry extends ExchangeEntry {
  /** Request and answer, as a request that continues the answer has it among its prefixes; by the answer's id too. */
  answered?: string | null;
  answered_id?: string | null;
  /** The answer by itself, the last one in the request by itself, and where among the prefixes that one ends. */
  answer_alone?: string | null;
  last_answer_alone?: string | null;
  last_answer_at?: number;
  /** Whether it is a call beside the work of a client that offers, or does not always offer, its model tools. */
  findSideCall?: (offersTools: boolean) => SideKind | null;
  /** Makes the sketch of the system prompt. */
  sketchSystem?: () => string;
  /** Results of tools behind the last answer in the request that say that the tool failed. */
  failed_results?: number;
  /** Names of the tools that the answer calls, each once. */
  tools?: string[];
  /** The answer broke off, or ended with an error. */
  broke_off?: boolean;
  /** Told by the bodies where the path says nothing: then it is a turn. */
  told_shape?: ApiShape | null;
  /** False when the exchange turns out to be no turn, though its path says so. */
  is_turn?: boolean;
  /** Lists the texts of the exchange, for the full-text index. */
  listTexts?: () => ExchangeTexts;
}

/** Reads the entry out of a stored copy. Pure, and never throws for a body that it cannot read. */
export type DecodeExchange = (copy: StoredCopy) => DecodedEntry;

/** What the decoder gets of an exchange. */
export function makeStoredCopy(meta: StoredMeta, request: Buffer, response: Buffer): StoredCopy {
  const { record } = meta;
  return {
    shape: record.shape,
    path: record.path,
    status: record.status,
    request_headers: flattenHeaders(record.request.headers, meta.request_decoded),
    response_headers: flattenHeaders(record.response.headers, meta.response_decoded),
    request_body: request,
    response_body: response,
    truncated: record.truncated,
  };
}

/** Runs the decoder. An exchange over which it throws counts as undecodable, so that it does not stop the index. */
export function decodeSafely(decode: DecodeExchange, copy: StoredCopy): DecodedEntry {
  try {
    return decode(copy);
  } catch (error) {
    const usage = unknownUsage();
    const reason = `the decoder failed: ${(error as Error).message}`;
    return { model: null, usage, stop_reason: null, undecodable: true, reason, conversation: [] };
  }
}

function flattenHeaders(headers: [string, string][], decoded: boolean): string[] {
  return headers.filter(([name]) => !decoded || name.toLowerCase() !== 'content-encoding').flat();
}
