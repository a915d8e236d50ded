/**
 * The pattern maker's work outside the actor: reads a queued trace, finds its patterns, has a language model improve
 * the words if one is configured, and passes the patterns to the store. Works on a few traces at a time, so that many
 * traces do not block the thread. Actor thread.
 */

import { setImmediate as nextTick } from 'node:timers/promises';
import {
  findPatternsInParts,
  keepDistinct,
  type PatternCandidate,
  type PatternDraft,
  toPattern,
} from '../../src/domain/patterns/drafts.ts';
import type { Trace } from '../../src/domain/trace.ts';
import { CatalogueError } from '../../src/errors.ts';
import { unpackTrace } from './trace-body.ts';

/** Maximum number of traces in which one thread searches for patterns at a time. Merges are not limited. */
export const TRACES_READ_AT_ONCE = 2;

/** Maximum time before other work of the thread runs. */
const TURN_MS = 4;

/** The scope of a pattern: tier e1 for a project, otherwise the organization's e2. */
export interface PatternScope {
  org_id: string;
  project_id: string | null;
}

/** The outcome for one pattern. */
export interface MergedPattern {
  pattern_id: string;
  /** false: it was merged into an existing pattern, whose support count increased. */
  created: boolean;
}

/** Stores the patterns made from traces. The pattern index's client fits. */
interface PatternSink {
  /**
   * Adds patterns, or merges each into one that teaches the same (docs/patterns.md).
   * @returns one result for each pattern, in order
   */
  merge(scope: PatternScope, patterns: readonly SinkPattern[]): Promise<MergedPattern[]>;
}

export interface SinkPattern extends PatternDraft {
  /** The trace's id. A store that remembers sources counts a repeated trace once. */
  source_trace_id: string;
}

/** Turns texts into vectors of length 1; `Embedder` of src/search fits. */
interface SituationEmbedder {
  embed(texts: readonly string[]): Promise<Float32Array[]>;
}

/** Improves the words of a pattern; returns the candidate unchanged if it cannot. */
export interface PatternWriter {
  write(candidate: PatternCandidate, trace: Trace): Promise<PatternCandidate>;
}

interface PatternParts {
  /** Reads the queued body of the actor with this key; undefined without one. */
  readBody(key: string): Uint8Array | undefined;
  /** null: there is no embedder, so only equal situations are near-duplicates. */
  embedder: SituationEmbedder | null;
  /** null: there is no pattern store. Traces are accepted, but make no patterns. */
  sink: PatternSink | null;
  writer: PatternWriter | null;
}

/** An error that the runtime turns into a refusal. */
class PortError extends Error {
  readonly code: string;
  readonly retryable: boolean;

  constructor(code: string, message: string, retryable: boolean, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = retryable;
  }
}

export class PatternMakingAdapter {
  readonly #parts: PatternParts;
  #running = 0;
  /**
   * Callers that wait. There are at most as many as actors of this kind in memory, because each actor waits at most
   * once.
   */
  readonly #waiting: (() => void)[] = [];

  constructor(parts: PatternParts) {
    this.#parts = parts;
  }

  /**
   * Finds the patterns of a queued trace.
   * @returns at most three patterns; none without a pattern store
   * @throws PortError if the trace cannot be read, or the embedder gives no answer
   */
  async distil({ key }: { key: string }): Promise<PatternDraft[]> {
    if (this.#parts.sink === null) return [];
    await this.#takeTurn();
    try {
      const trace = await this.#read(key);
      const candidates = await findPatternsInTurns(trace);
      const kept = await this.#keepDistinct(candidates);
      const { writer } = this.#parts;
      const written =
        writer === null ? kept : await Promise.all(kept.map((draft) => writer.write(draft, trace)));
      return written.map(toPattern);
    } finally {
      this.#passTurn();
    }
  }

  /**
   * Passes the patterns to the store.
   * @returns one result for each pattern, in order; none without a pattern store
   * @throws PortError if the store does not take them
   */
  async merge(input: {
    org_id: string;
    project_id: string | null;
    trace_id: string;
    patterns: PatternDraft[];
  }): Promise<MergedPattern[]> {
    const { sink } = this.#parts;
    if (sink === null) return [];
    const { org_id, project_id, trace_id, patterns } = input;
    const sourced = patterns.map((pattern) => ({ ...pattern, source_trace_id: trace_id }));
    try {
      return await sink.merge({ org_id, project_id }, sourced);
    } catch (thrown) {
      // The message of a full store contains no data of other callers, so it is passed on.
      const isFull = thrown instanceof CatalogueError && thrown.code === 'conflict';
      throw unavailable(isFull ? thrown.message : 'the pattern store cannot store patterns now', thrown);
    }
  }

  async #read(key: string): Promise<Trace> {
    const body = this.#parts.readBody(key);
    if (body === undefined) throw new PortError('body_lost', 'the body of the trace is missing', false);
    try {
      return await unpackTrace(body);
    } catch (thrown) {
      throw new PortError('body_damaged', 'the body of the trace cannot be read', false, { cause: thrown });
    }
  }

  async #keepDistinct(candidates: readonly PatternCandidate[]): Promise<PatternCandidate[]> {
    const { embedder } = this.#parts;
    if (candidates.length < 2 || embedder === null) return keepDistinct(candidates, null);
    try {
      const vectors = await embedder.embed(candidates.map(({ situation }) => situation));
      return keepDistinct(candidates, vectors);
    } catch (thrown) {
      throw unavailable('the embedder does not answer now', thrown);
    }
  }

  async #takeTurn(): Promise<void> {
    if (this.#running < TRACES_READ_AT_ONCE) {
      this.#running++;
      return;
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Ends a turn. If callers wait, the first one gets the turn directly, so that later callers cannot get it before. */
  #passTurn(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#running--;
    else next();
  }
}

/**
 * Finds the patterns of a trace in slices, between which other actors of the thread run, because a long trace takes a
 * second.
 */
async function findPatternsInTurns(trace: Trace): Promise<PatternCandidate[]> {
  const parts = findPatternsInParts(trace);
  let turnBegan = performance.now();
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value;
    if (performance.now() - turnBegan < TURN_MS) continue;
    await nextTick();
    turnBegan = performance.now();
  }
}

/** Makes an error that is retryable unless the thrown error says that the work can never succeed. */
function unavailable(message: string, thrown: unknown): PortError {
  const retryable = !(thrown instanceof CatalogueError) || thrown.retryable || thrown.code === 'internal';
  return new PortError('unavailable', message, retryable, { cause: thrown });
}
