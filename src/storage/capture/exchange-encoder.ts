/**
 * Turns an exchange into its record: chooses the earlier exchange (the base) against which the exchange is stored,
 * describes the differences, and keeps the exchange as a base for later exchanges. Capture process.
 */
import {
  BaseCache,
  type BaseEntry,
  type ChosenBase,
  copyBody,
  countCopied,
  isAsItCame,
} from './base-cache.ts';
import { DICTIONARY_BYTES, draftRecord, encodeBlock, type RecordDraft, writeRecordEnd } from './codec.ts';
import { type Delta, makeDelta, measureCommonPrefix } from './delta.ts';
import type { Preparer } from './preparation.ts';
import { measureSharedPrefix, NO_FILES, type PreparedBody } from './prepared-body.ts';
import { listWithheld, type PreparedExchange } from './prepared-exchange.ts';
import { encodeMeta } from './record.ts';
import type { BodyPlace } from './stored-copy.ts';

/** Maximum memory for the bodies of bases. */
const BASE_CACHE_BYTES = 64 << 20;
/** Longer responses are not kept in a base. */
const RESPONSE_BASE_BYTES_MAX = 256 << 10;

/**
 * Maximum length of a chain of bases. An exchange that would make a chain longer is stored against the first exchange
 * of the chain, or without a base (a keyframe).
 */
const MAX_DEPTH = 48;
/**
 * Under pressure, exchanges with smaller requests are stored without a base while bases rarely help, because the search
 * for one takes more time than it saves.
 */
const PRESSED_BASE_BYTES = 16 << 10;
/**
 * Share of one core for thorough compression. After a thorough compression, single exchanges are compressed faster
 * until nine times its duration has passed. Agents' turns come seconds apart, so nearly all are compressed
 * thoroughly.
 */
const PATIENT_SHARE = 0.1;
/**
 * The requests of a growing conversation get their size divided by this as extra memory, in which some more turns fit.
 */
const GROWTH_PART = 8;
/**
 * A response is stored as a delta only if it has at least this many bytes in common with the base's response at the
 * beginning.
 */
const MIN_RESPONSE_PREFIX = 512;

/** An exchange in its stored form. The memory of its bodies is valid until the batch is acknowledged. */
export interface EncodedExchange {
  draft: RecordDraft;
  meta: Buffer;
  request: PreparedBody;
  response: PreparedBody;
  /** undefined: the exchange is not kept as a base. */
  request_place?: BodyPlace | undefined;
}

interface ChainedExchange extends EncodedExchange {
  base: BaseEntry | null;
}

/** Saves an attachment before the exchange that contains it. @throws the storage's error */
type SaveAttachment = (sha256: string, content: Buffer) => void;

export class ExchangeEncoder {
  readonly #preparer: Preparer;
  readonly #saveAttachment: SaveAttachment;
  readonly #bases = new BaseCache(BASE_CACHE_BYTES);
  /** Time (performance.now()) from which compression may be thorough again. */
  #patientFrom = 0;

  constructor(preparer: Preparer, saveAttachment: SaveAttachment) {
    this.#preparer = preparer;
    this.#saveAttachment = saveAttachment;
  }

  /** Forgets all bases: later exchanges are not stored against exchanges that were encoded before. */
  forget(): void {
    this.#bases.clear();
  }

  /** Forgets these bases, because their stored form has changed. */
  forgetSome(ids: ReadonlySet<number>): void {
    this.#bases.forget(ids);
  }

  /**
   * Encodes a block of one exchange. Its base is the dictionary, if it has one.
   * @throws the storage's error
   */
  encodeAlone(prepared: PreparedExchange, id: number): EncodedExchange & { block: Buffer } {
    const encoded = this.#encode(prepared, id, false, true);
    const { base, draft } = encoded;
    const start = performance.now();
    const patient = start >= this.#patientFrom;
    const dictionary =
      base === null || base.record === null
        ? null
        : {
            distance: id - base.id,
            record: base.record,
            request: patient ? base.request.stored : null,
          };
    const block = encodeBlock([draft], dictionary, patient ? 'patient' : 'hurried');
    if (patient) {
      const end = performance.now();
      this.#patientFrom = end + (end - start) * (1 / PATIENT_SHARE - 1);
    }
    return { ...encoded, block };
  }

  /**
   * Encodes a record that shares a block with others.
   * @param pressed true: there is no time to compress, or to keep answers in bases
   * @throws the storage's error
   */
  draft(prepared: PreparedExchange, id: number, pressed: boolean): EncodedExchange {
    const isWorthKeeping = !pressed || this.#bases.isWorthKeeping();
    const isAlone = !isWorthKeeping && prepared.request_raw.length < PRESSED_BASE_BYTES;
    return isAlone ? this.#draftKeyframe(prepared) : this.#encode(prepared, id, pressed, isWorthKeeping);
  }

  /** Makes a record without a base, and does not keep the exchange as a base. */
  #draftKeyframe(prepared: PreparedExchange): EncodedExchange {
    const request = this.#preparer.editRequest(prepared, null, 0);
    const response = this.#preparer.editResponse(prepared, null, 0);
    this.#saveFiles(request);
    this.#saveFiles(response);
    return draftWhole(prepared, request, response);
  }

  /**
   * Encodes an exchange against a base, if one helps, and keeps the exchange as a base if `isWorthKeeping` says so. An
   * exchange with a withheld body is stored whole and not kept.
   * @param pressed true: the answer is not kept in the base, which saves copying it
   * @param isWorthKeeping whether to keep the exchange as a base
   */
  #encode(
    prepared: PreparedExchange,
    id: number,
    pressed: boolean,
    isWorthKeeping: boolean,
  ): ChainedExchange {
    const chosen = this.#chooseBase(prepared, pressed);
    const base = chosen?.entry ?? null;
    // The base's edits can be reused only if the same secrets were searched for.
    const alike = base !== null && base.secrets === prepared.secrets;
    const request = this.#preparer.editRequest(prepared, alike ? base.request : null, chosen?.prefix ?? 0);
    const responseBase = alike && base.response !== null ? base.response : null;
    const responsePrefix =
      responseBase === null ? 0 : measureSharedPrefix(responseBase, prepared.response_raw);
    const usesResponse = responseBase !== null && responsePrefix >= MIN_RESPONSE_PREFIX;
    const response = this.#preparer.editResponse(
      prepared,
      usesResponse ? responseBase : null,
      responsePrefix,
    );
    this.#saveFiles(request);
    this.#saveFiles(response);
    if (listWithheld(prepared).length > 0) {
      return { ...draftWhole(prepared, request, response), base: null };
    }

    const plain =
      base === null || chosen === null || (chosen.by_path && chosen.prefix * 4 < request.raw.length);
    const requestDelta = plain ? null : diff(base.request, request, alike ? chosen.prefix : undefined);
    const responseDelta = usesResponse ? diff(responseBase, response, responsePrefix) : null;
    const distance = base === null || (requestDelta === null && responseDelta === null) ? 0 : id - base.id;
    const meta = encodeMeta(prepared, request.has_files, response.has_files);
    const draft = draftRecord(
      distance,
      requestDelta?.ops ?? [],
      requestDelta?.literals ?? [request.stored],
      responseDelta?.ops ?? [],
      responseDelta?.literals ?? [response.stored],
      meta,
    );
    if (!isWorthKeeping) return { draft, meta, request, response, base };
    const request_place = placeRequest(request, base, alike ? (chosen?.prefix ?? 0) : 0);
    this.#keep(prepared, id, { request, response, draft, chosen, pressed, self: request_place.self });
    return { draft, meta, request, response, base, request_place };
  }

  /** Keeps an exchange as a base for later ones. */
  #keep(
    { exchange, secrets }: PreparedExchange,
    id: number,
    { request, response, draft, chosen, pressed, self }: KeptParts,
  ): void {
    const base = chosen?.entry ?? null;
    const kept = !pressed && response.raw.length <= RESPONSE_BASE_BYTES_MAX ? response : null;
    const requestBytes = countCopied(request);
    const bodyBytes = requestBytes + (kept === null ? 0 : countCopied(kept));
    const recordBytes = pressed ? 0 : Math.min(draft.bytes, DICTIONARY_BYTES);
    const repeats = base !== null && chosen !== null && chosen.prefix * 10 >= base.request.raw.length * 9;
    // Under pressure, a request that repeats its base reuses the base's memory.
    const grows = pressed && repeats && isAsItCame(request) && isAsItCame(base.request);
    const taken = grows ? this.#bases.takeOver(base, requestBytes) : null;
    const room = grows ? Math.floor(requestBytes / GROWTH_PART) : 0;
    const memory = taken ?? this.#bases.takeMemory(bodyBytes + recordBytes + room);
    if (memory === null) return;
    const record = pressed ? null : memory.subarray(bodyBytes, bodyBytes + recordBytes);
    if (record !== null) writeRecordEnd(draft, record);
    const entry: BaseEntry = {
      id,
      depth: base === null ? 0 : base.depth + 1,
      root: base === null ? id : base.root,
      request: copyBody(request, memory, 0, taken === null ? 0 : chosen!.prefix),
      request_self: self,
      response: kept === null ? null : copyBody(kept, memory, requestBytes),
      record,
      secrets,
      memory,
    };
    this.#bases.add(entry, exchange.run_id, exchange.path, repeats ? base : null);
  }

  /**
   * Chooses a base. If its chain has the maximum length, the first exchange of the chain is the base if it helps,
   * otherwise none.
   */
  #chooseBase(prepared: PreparedExchange, pressed: boolean): ChosenBase | null {
    const { exchange } = prepared;
    const chosen = this.#bases.choose(exchange.run_id, exchange.path, prepared.request_raw, pressed);
    if (chosen === null || chosen.entry.depth < MAX_DEPTH) return chosen;
    const root = this.#bases.get(chosen.entry.root);
    if (root === undefined) return null;
    const prefix = measureSharedPrefix(root.request, prepared.request_raw);
    return prefix * 2 >= prepared.request_raw.length ? { entry: root, prefix, by_path: false } : null;
  }

  #saveFiles(body: PreparedBody): void {
    if (body.new_files.length === 0) return;
    for (const file of body.new_files) this.#saveAttachment(file.sha256, file.content);
    // The body may be kept as a base. Its attachments must not be saved again.
    body.new_files = NO_FILES;
  }
}

/** What to keep of an exchange, and its base. */
interface KeptParts {
  request: PreparedBody;
  response: PreparedBody;
  draft: RecordDraft;
  chosen: ChosenBase | null;
  pressed: boolean;
  /** Identifies the request body (`BodyPlace`). */
  self: object;
}

/**
 * Returns how much of its base a stored request body repeats.
 * @param prefix length of the common beginning of both received bodies; 0 if unknown
 */
function placeRequest(request: PreparedBody, base: BaseEntry | null, prefix: number): BodyPlace {
  const self = {};
  if (base === null || request.has_files || base.request.has_files)
    return { self, repeats: null, repeated_bytes: 0 };
  const isPlain = prefix > 0 && isAsItCame(request) && isAsItCame(base.request);
  const repeated = isPlain ? prefix : measureCommonPrefix(base.request.stored, request.stored);
  return { self, repeats: base.request_self, repeated_bytes: repeated };
}

/** Makes a record without a base. */
function draftWhole(
  prepared: PreparedExchange,
  request: PreparedBody,
  response: PreparedBody,
): EncodedExchange {
  const meta = encodeMeta(prepared, request.has_files, response.has_files);
  const draft = draftRecord(0, [], [request.stored], [], [response.stored], meta);
  return { draft, meta, request, response };
}

/** Makes the delta from `base` to `body`; null if it does not save enough. */
function diff(base: PreparedBody, body: PreparedBody, rawPrefix: number | undefined): Delta | null {
  if (body.stored.length === 0 || base.stored.length === 0) return null;
  const untouched = body.stored === body.raw && base.stored === base.raw;
  const delta = makeDelta(base.stored, body.stored, untouched ? rawPrefix : undefined);
  return delta.literal_bytes * 10 < body.stored.length * 9 ? delta : null;
}
