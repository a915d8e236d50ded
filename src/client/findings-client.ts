/**
 * Findings about a code base (document 2, findings client): `understudy.findings('my-code-base')`. If the service
 * does not answer or refuses, the results are an empty list, null, 0 or false. Only an argument of a wrong type
 * rejects. Any thread.
 */
import type { Caller, CallManner } from './api-client.ts';
import type { AnswerOf, OperationName, RequestOf } from './operations.ts';

export interface Finding {
  findingId: string;
  projectId: string;
  content: string;
  filePath: string;
  findingType: string;
  metadata: Record<string, unknown>;
  /** RFC 3339, UTC. */
  createdAt: string;
}

export interface RecalledFinding extends Finding {
  /** Similarity, from 0 to 1. */
  score: number;
}

export interface FindingFilter {
  filePath?: string;
  findingType?: string;
}

export interface StoreOptions extends FindingFilter {
  metadata?: Record<string, unknown>;
}

/** A finding to store, as one object. */
export interface NewFinding extends StoreOptions {
  content: string;
}

export interface RecallOptions extends FindingFilter {
  /** Default 5. */
  topK?: number;
  /** Default 0.25. */
  scoreThreshold?: number;
}

export interface ListOptions extends FindingFilter {
  /** Default 50, at most 200. */
  limit?: number;
  offset?: number;
}

export interface FindingsOptions {
  /** Time limit of a call. Default 10,000. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 10_000;
const TIMEOUT_MAX_MS = 600_000;
const QUERY_CHARACTERS = 2_000;
/**
 * Texts are cut to this length before sending. The service masks keys first, and then cuts texts to the documented
 * 8,000, 512 and 64 characters. So the client sends more characters, and a key at the place of the cut is still
 * complete.
 */
const SENT_CHARACTERS = { content: 16_192, filePath: 8_704, findingType: 8_256 } as const;

export class FindingsClient {
  readonly codebaseId: string;
  readonly #caller: Caller;
  readonly #timeoutMs: number;

  /**
   * @internal Made by `Understudy.findings`.
   * @throws TypeError for a code base without a name, RangeError for an invalid timeout
   */
  constructor(caller: Caller, codebaseId: string, { timeoutMs = TIMEOUT_MS }: FindingsOptions = {}) {
    if (typeof codebaseId !== 'string' || codebaseId === '') {
      throw new TypeError('codebaseId must be a text that is not empty');
    }
    if (!(timeoutMs > 0 && timeoutMs <= TIMEOUT_MAX_MS)) {
      throw new RangeError(`timeoutMs must be above 0, at most ${TIMEOUT_MAX_MS}`);
    }
    this.codebaseId = codebaseId;
    this.#caller = caller;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Stores a finding.
   * @param finding its content, or an object with the content and the options. `content` is cut to 8,000 characters, `filePath`
   *   to 512, `findingType` (default `note`) to 64
   * @returns the finding's id; null if the finding was not stored or no answer arrived
   * @throws TypeError for a text, or metadata, of a wrong type
   */
  async store(finding: string | NewFinding, options: StoreOptions = {}): Promise<string | null> {
    const isObject = typeof finding === 'object' && finding !== null && !Array.isArray(finding);
    const { content, ...rest } = isObject ? { ...options, ...finding } : { ...options, content: finding };
    const { metadata } = rest;
    const body = {
      content: cut('content', content, SENT_CHARACTERS.content),
      ...toFilter(rest),
      ...(metadata === undefined || metadata === null ? {} : { metadata: readMetadata(metadata) }),
    };
    return orElse(null, async () => (await this.#ask('storeFinding', { body })).finding_id ?? null);
  }

  /**
   * Searches for findings.
   * @param query the question, which is cut to 2,000 characters
   * @returns the most similar findings, by descending score; [] after a failure
   * @throws TypeError for a query, or a value of the filter, that is not a text
   */
  async recall(query: string, options: RecallOptions = {}): Promise<RecalledFinding[]> {
    const { topK = 5, scoreThreshold = 0.25 } = options;
    const body = {
      query: cut('query', query, QUERY_CHARACTERS),
      top_k: topK,
      score_threshold: scoreThreshold,
      ...toFilter(options),
    };
    return orElse([], async () => {
      const { findings } = await this.#ask('recallFindings', { body });
      return findings.map((finding) => ({ ...toFinding(finding), score: finding.score }));
    });
  }

  /**
   * Lists findings, newest first.
   * @returns one page; [] after a failure
   * @throws TypeError for a value of the filter that is not a text
   */
  async list(options: ListOptions = {}): Promise<Finding[]> {
    const { limit = 50, offset = 0 } = options;
    const query = { limit, offset, ...toFilter(options) };
    return orElse([], async () => (await this.#ask('listFindings', { query })).findings.map(toFinding));
  }

  /**
   * Asks which share of the paths has findings.
   * @returns the share, from 0 to 1; 1 for an empty list, 0 after a failure
   * @throws TypeError for anything but a list of texts
   */
  async coverage(filePaths: readonly string[]): Promise<number> {
    const body = toPaths(filePaths);
    if (body.file_paths.length === 0) return 1;
    return orElse(0, async () => Number((await this.#ask('findingsCoverage', { body })).coverage) || 0);
  }

  /**
   * Deletes the findings about exactly these paths.
   * @returns how many were deleted; 0 after a failure
   * @throws TypeError for anything but a list of texts
   */
  async invalidate(filePaths: readonly string[]): Promise<number> {
    const body = toPaths(filePaths);
    if (body.file_paths.length === 0) return 0;
    return orElse(0, async () => Number((await this.#ask('invalidateFindings', { body })).deleted) || 0);
  }

  /** Deletes all findings about the code base. @returns false if they were not deleted or no answer arrived */
  clear(): Promise<boolean> {
    return orElse(false, async () => (await this.#ask('clearFindings', {})).cleared === true);
  }

  #ask<Name extends OperationName>(
    name: Name,
    parts: Omit<RequestOf<Name>, 'params'>,
  ): Promise<AnswerOf<Name>> {
    const manner: CallManner = { timeoutMs: this.#timeoutMs };
    const request = { ...parts, params: { codebase_id: this.codebaseId } };
    return this.#caller.call(name, request as unknown as RequestOf<Name>, manner);
  }
}

/** Returns the empty value after any failure: of the service, of the connection, or an unexpected answer. */
async function orElse<Result>(empty: Result, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch {
    return empty;
  }
}

type WireFinding = AnswerOf<'listFindings'>['findings'][number];

function toFinding(wire: WireFinding): Finding {
  return {
    findingId: wire.finding_id,
    projectId: wire.project_id,
    content: wire.content,
    filePath: wire.file_path,
    findingType: wire.finding_type,
    metadata: wire.metadata,
    createdAt: wire.created_at,
  };
}

/**
 * Makes the filter of a request. null and undefined mean no filter.
 * @throws TypeError for any other filter that is not a text
 */
function toFilter({ filePath, findingType }: FindingFilter): { file_path?: string; finding_type?: string } {
  return {
    ...(filePath === undefined || filePath === null
      ? {}
      : { file_path: cut('filePath', filePath, SENT_CHARACTERS.filePath) }),
    ...(findingType === undefined || findingType === null
      ? {}
      : { finding_type: cut('findingType', findingType, SENT_CHARACTERS.findingType) }),
  };
}

function toPaths(filePaths: readonly string[]): { file_paths: string[] } {
  if (!Array.isArray(filePaths)) {
    throw new TypeError(`filePaths of a finding must be a list of texts, not ${nameType(filePaths)}`);
  }
  return { file_paths: filePaths.map((path) => cut('filePaths', path, SENT_CHARACTERS.filePath)) };
}

function readMetadata(metadata: unknown): Record<string, unknown> {
  if (typeof metadata === 'object' && !Array.isArray(metadata)) return metadata as Record<string, unknown>;
  throw new TypeError(`metadata of a finding must be an object, not ${nameType(metadata)}`);
}

/**
 * Returns the first code points of a text. Replaces lone surrogates, which the service refuses.
 * @throws TypeError for anything but a text: an object would be stored as `[object Object]`
 */
function cut(name: string, text: unknown, characters: number): string {
  if (typeof text !== 'string') {
    throw new TypeError(`${name} of a finding must be a text, not ${nameType(text)}`);
  }
  const whole = text.toWellFormed();
  if (whole.length <= characters) return whole;
  let units = 0;
  for (let count = 0; count < characters && units < whole.length; count += 1) {
    units += whole.codePointAt(units)! > 0xffff ? 2 : 1;
  }
  return whole.slice(0, units);
}

function nameType(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'a list' : typeof value;
}
