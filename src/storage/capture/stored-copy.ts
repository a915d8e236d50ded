/**
 * The form in which a decoder gets a stored exchange, and the decoder's result. The decoder is passed in, because
 * this folder knows no wire format. Any thread.
 */
import type { SideKind } from '../../domain/child-kind.ts';
import { type ApiShape, type ExchangeEntry, unknownUsage } from '../../domain/exchange.ts';
import type { ExchangeTexts } from '../../domain/placed-text.ts';
import type { StoredMeta } from './record.ts';

/** The stored copy for a decoder. */
export interface StoredCopy {
  shape: ApiShape | null;
  path: string;
  status: number;
  /** Flat [name, value, …]. A content-encoding header is omitted if it was removed from the stored body. */
  request_headers: readonly string[];
  response_headers: readonly string[];
  request_body: Uint8Array;
  response_body: Uint8Array;
  truncated: boolean;
  request_place?: BodyPlace | undefined;
}

/**
 * Says what a request body repeats of an earlier body, so that a decoder that has read the earlier one reads only the
 * new bytes.
 */
export interface BodyPlace {
  /** Identifies this body. */
  self: object;
  /** Identifies an earlier body that begins with the same bytes; null: none. */
  repeats: object | null;
  /** Number of these bytes; 0 if there is no earlier body. */
  repeated_bytes: number;
}

/**
 * The decoder's result, and the hashes that link turns (src/providers/conversation.ts). A missing field counts as
 * null.
 */
export interface DecodedEntry extends ExchangeEntry {
  /**
   * Hash of request and answer, equal to one of the prefixes of a request that continues the answer; null without a
   * finished answer.
   */
  answered?: string | null;
  /**
   * Like `answered`, but made of the provider's id of the conversation or of the answer; null if the provider stores
   * neither.
   */
  answered_id?: string | null;
  /** Hash of the answer alone. */
  answer_alone?: string | null;
  /** Hash of the last answer in the request alone. */
  last_answer_alone?: string | null;
  /** Index in `conversation` of the prefix that ends with the last answer. */
  last_answer_at?: number;
  /**
   * Returns the kind of side call; null if the exchange is no side call. `offersTools`: whether the client always
   * offers tools to its model.
   */
  findSideCall?: (offersTools: boolean) => SideKind | null;
  /** Computes the sketch of the system prompt. */
  sketchSystem?: () => string;
  /** Number of failed tool results after the last answer in the request. */
  failed_results?: number;
  /** Names of the tools that the answer calls, without repetitions. */
  tools?: string[];
  /** Whether the answer was cut off, or ended with an error. */
  broke_off?: boolean;
  /** The wire format according to the bodies, if it does not follow from the path. If set, the exchange is a turn. */
  told_shape?: ApiShape | null;
  /** False if the exchange is not a turn although its path is that of a turn. */
  is_turn?: boolean;
  /** Lists the texts of the exchange, for the full-text index. */
  listTexts?: () => ExchangeTexts;
}

/** Decodes a stored copy. Pure; never throws for a body that it cannot decode. */
export type DecodeExchange = (copy: StoredCopy) => DecodedEntry;

/** Both bodies of an exchange, with their attachments. */
export interface DecodedBodies {
  request: Buffer;
  response: Buffer;
  request_place?: BodyPlace | undefined;
}

/** Makes the decoder's input from an exchange. */
export function makeStoredCopy(
  meta: StoredMeta,
  { request, response, request_place }: DecodedBodies,
): StoredCopy {
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
    ...(request_place === undefined ? {} : { request_place }),
  };
}

/** Runs the decoder. If it throws, the exchange counts as undecodable, so that it does not stop the index. */
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
