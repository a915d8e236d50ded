/**
 * From one exchange to its record: which earlier exchange it is stored against, what of it differs from that one, and what
 * is kept of it so that later ones can be stored against it. Capture process.
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
import { type Delta, makeDelta } from './delta.ts';
import type { Preparer } from './preparation.ts';
import { measureSharedPrefix, NO_FILES, type PreparedBody } from './prepared-body.ts';
import { listWithheld, type PreparedExchange } from './prepared-exchange.ts';
import { encodeMeta } from './record.ts';

/** Memory for earlier bodies that new ones are stored against. */
const BASE_CACHE_BYTES = 64 << 20;
/** Length from which on a response is not kept as a base. */
const RESPONSE_BASE_BYTES_MAX = 256 << 10;

/** Exchanges that may have to be read before one can be; then comes a keyframe. */
const MAX_DEPTH = 48;
/** Under pressure, exchanges with smaller requests are stored without a base while bases do not help: to look for one takes longer. */
const PRESSED_BASE_BYTES = 16 << 10;
/**
 * Thorough compression takes at most this part of one core: after each one, single exchanges are compressed in less time
 * until nine times what it took has passed. Agents' turns come seconds apart, so nearly all get the thorough one.
 */
const PATIENT_SHARE = 0.1;
/** Part of a growing request by which its memory is longer: some turns fit in. */
const GROWTH_PART = 8;
/** Response bodies with a shorter common beginning are not worth a delta. */
const MIN_RESPONSE_PREFIX = 512;

/** An exchange as it is stored. Its bodies use memory that is valid until the batch is answered. */
export interface EncodedExchange {
  draft: RecordDraft;
  meta: Buffer;
  request: PreparedBody;
  response: PreparedBody;
}

interface ChainedExchange extends EncodedExchange {
  base: BaseEntry | null;
}

/** Saves an attachment under its name, before the exchange that it came with. @throws the storage's error */
type SaveAttachment = (sha256: string, content: Buffer) => void;

export class ExchangeEncoder {
  readonly #preparer: Preparer;
  readonly #saveAttachment: SaveAttachment;
  readonly #bases = new BaseCache(BASE_CACHE_BYTES);
  /** When, by performance.now(), compression may take its time again. */
  #patientFrom = 0;

  constructor(preparer: Preparer, saveAttachment: SaveAttachment) {
    this.#preparer = preparer;
    this.#saveAttachment = saveAttachment;
  }

  /** What comes next builds on nothing that was encoded so far. */
  forget(): void {
    this.#bases.clear();
  }

  /**
   * A block of one exchange, with its base as dictionary.
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
   * A record for a block with others.
   * @param pressed there is no time to compress, nor to keep answers as bases
   * @throws the storage's error
   */
  draft(prepared: PreparedExchange, id: number, pressed: boolean): EncodedExchange {
    const isWorthKeeping = !pressed || this.#bases.isWorthKeeping();
    const isAlone = !isWorthKeeping && prepared.request_raw.length < PRESSED_BASE_BYTES;
    return isAlone ? this.#draftKeyframe(prepared) : this.#encode(prepared, id, pressed, isWorthKeeping);
  }

  /** An exchange by itself, that nothing builds on. */
  #draftKeyframe(prepared: PreparedExchange): EncodedExchange {
    const request = this.#preparer.editRequest(prepared, null, 0);
    const response = this.#preparer.editResponse(prepared, null, 0);
    this.#saveFiles(request);
    this.#saveFiles(response);
    return draftWhole(prepared, request, response);
  }

  /**
   * An exchange built on an earlier one, if any helps, and kept so that others can build on it.
   * @param pressed answers are not kept, which saves copying them
   * @param isWorthKeeping others may build on it
   */
  #encode(
    prepared: PreparedExchange,
    id: number,
    pressed: boolean,
    isWorthKeeping: boolean,
  ): ChainedExchange {
    const chosen = this.#chooseBase(prepared, pressed);
    const base = chosen?.entry ?? null;
    // Edits of the base hold for this body only when the same secrets were looked for.
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
    if (isWorthKeeping) this.#keep(prepared, id, { request, response, draft, chosen, pressed });
    return { draft, meta, request, response, base };
  }

  /** As a base for later ones. */
  #keep(
    { exchange, secrets }: PreparedExchange,
    id: number,
    { request, response, draft, chosen, pressed }: KeptParts,
  ): void {
    const base = chosen?.entry ?? null;
    const kept = !pressed && response.raw.length <= RESPONSE_BASE_BYTES_MAX ? response : null;
    const requestBytes = countCopied(request);
    const bodyBytes = requestBytes + (kept === null ? 0 : countCopied(kept));
    const recordBytes = pressed ? 0 : Math.min(draft.bytes, DICTIONARY_BYTES);
    const repeats = base !== null && chosen !== null && chosen.prefix * 10 >= base.request.raw.length * 9;
    // Under pressure a conversation that goes on grows where it is.
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
      response: kept === null ? null : copyBody(kept, memory, requestBytes),
      record,
      secrets,
      memory,
    };
    this.#bases.add(entry, exchange.run_id, exchange.path, repeats ? base : null);
  }

  /** At the end of a chain, the exchange at its beginning if it still helps, else none: a keyframe. */
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
    // The body may be kept as a base, without them.
    body.new_files = NO_FILES;
  }
}

/** What is kept of an exchange, and what it was built on. */
interface KeptParts {
  request: PreparedBody;
  response: PreparedBody;
  draft: RecordDraft;
  chosen: ChosenBase | null;
  pressed: boolean;
}

/** A record that builds on no other. */
function draftWhole(
  prepared: PreparedExchange,
  request: PreparedBody,
  response: PreparedBody,
): EncodedExchange {
  const meta = encodeMeta(prepared, request.has_files, response.has_files);
  const draft = draftRecord(0, [], [request.stored], [], [response.stored], meta);
  return { draft, meta, request, response };
}

/** How `body` is made from `base`, or null when it is not worth it. */
function diff(base: PreparedBody, body: PreparedBody, rawPrefix: number | undefined): Delta | null {
  if (body.stored.length === 0 || base.stored.length === 0) return null;
  const untouched = body.stored === body.raw && base.stored === base.raw;
  const delta = makeDelta(base.stored, body.stored, untouched ? rawPrefix : undefined);
  return delta.literal_bytes * 10 < body.stored.length * 9 ? delta : null;
}
