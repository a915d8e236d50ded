/** Submits and deletes traces. Only this file sends messages to pattern makers. Server threads. */

import type { AuditEntry } from '../../src/domain/account.ts';
import type { Trace } from '../../src/domain/trace.ts';
import type { TraceAddress } from '../../src/domain/trace-rows.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import type { TraceReads } from '../../src/storage/ports/traces.ts';
import { PATTERN_MAKER_KIND, patternMakerKey, type SubmitReply, type SubmitRequest } from './protocol.ts';
import { packTrace } from './trace-body.ts';

/** Deadline for a legacy trace, including the time in which other traces and a language model are waited for. */
const SUBMIT_DEADLINE_MS = 30_000;
const WAKE_DEADLINE_MS = 5_000;
/** Maximum number of unfinished traces that one call wakes; the next call wakes further ones. */
const WAKES = 1_000;

type Unfinished = Pick<TraceReads, 'listUnfinished'>;

export class PatternMakerClient {
  readonly #asker: Asker;
  readonly #traces: Unfinished;
  /** Keys of the unfinished traces of the last {@link resume}; at most WAKES. */
  #found: ReadonlySet<string> = new Set();

  constructor(asker: Asker, traces: Unfinished) {
    this.#asker = asker;
    this.#traces = traces;
  }

  /**
   * Submits a trace. It is stored when this resolves; a legacy trace is also processed.
   * @throws CatalogueError `conflict` if the id was used with another body, `unavailable` if the trace cannot be
   * accepted now, or if a legacy trace cannot be processed now
   */
  async submit(request: SubmitRequest, trace: Trace): Promise<SubmitReply> {
    const bodies = [await packTrace(trace)];
    try {
      return (await this.#asker.ask(
        { kind: PATTERN_MAKER_KIND, key: patternMakerKey(request) },
        'submit',
        request,
        {
          deadline_ms: SUBMIT_DEADLINE_MS,
          bodies,
        },
      )) as SubmitReply;
    } catch (thrown) {
      if (thrown instanceof RuntimeError && thrown.code === 'conflict') {
        throw new CatalogueError('conflict', 'This trace_id was submitted with a different body');
      }
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }

  /**
   * Deletes a trace. When this resolves, it is removed from the disk. Patterns made from it stay.
   * @param audit entry that is written with the deletion; null: the caller records it elsewhere
   * @throws CatalogueError `not_found` if the trace does not exist, `unavailable` if it cannot be deleted now
   */
  async delete(address: TraceAddress, audit: AuditEntry | null): Promise<void> {
    try {
      await this.#asker.ask({ kind: PATTERN_MAKER_KIND, key: patternMakerKey(address) }, 'delete', { audit });
    } catch (thrown) {
      if (thrown instanceof RuntimeError && thrown.code === 'trace_not_found')
        throw new CatalogueError('not_found');
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }

  /**
   * Wakes the actors of traces that a crash left unfinished. Call it at the start and at intervals, because each call
   * wakes a limited number. Traces in progress are not affected.
   * @param isShared whether other boxes process traces, too. If so, a trace is woken only by the second call that finds
   * it, because another box may be processing it
   * @returns the number of traces that were woken
   */
  async resume(isShared = false): Promise<number> {
    let woken = 0;
    const keys = [...this.#traces.listUnfinished(WAKES)];
    const before = this.#found;
    this.#found = new Set(keys);
    for (const key of keys) {
      if (isShared && !before.has(key)) continue;
      const to = { kind: PATTERN_MAKER_KIND, key };
      try {
        await this.#asker.ask(to, 'wake', null, { deadline_ms: WAKE_DEADLINE_MS });
        woken++;
      } catch (thrown) {
        // The queue is full, or the thread is down. The next call finds the trace again.
        if (thrown instanceof RuntimeError && thrown.retryable) break;
        throw new CatalogueError('unavailable', undefined, { cause: thrown });
      }
    }
    return woken;
  }
}
