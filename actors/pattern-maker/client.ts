/**
 * Submits traces and reads what became of them. The only place that makes the pattern maker's messages. Server threads.
 */

import type { AuditEntry } from '../../src/domain/account.ts';
import type { Trace } from '../../src/domain/trace.ts';
import { TRACES, type TraceAddress, type TraceRow, traceRowKey } from '../../src/domain/trace-rows.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import type { TableReader } from '../../src/storage/tables.ts';
import {
  PATTERN_MAKER_KIND,
  patternMakerKey,
  type SubmitReply,
  type SubmitRequest,
  UNFINISHED_TRACES,
} from './protocol.ts';
import { packTrace } from './trace-body.ts';

/** How long a legacy trace may wait for its patterns, behind others, perhaps with a model that writes. */
const SUBMIT_DEADLINE_MS = 30_000;
const WAKE_DEADLINE_MS = 5_000;
/** Unfinished traces woken in one go; the next go brings the rest. */
const WAKES = 1_000;

export class PatternMakerClient {
  readonly #asker: Asker;
  readonly #tables: TableReader;

  constructor(asker: Asker, tables: TableReader) {
    this.#asker = asker;
    this.#tables = tables;
  }

  /**
   * Submits a trace: durable when this returns, distilled too if it is a legacy one.
   * @throws CatalogueError `conflict` when the id came with another body, `unavailable` when the trace cannot be taken or
   *   a legacy one not be distilled now
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
   * Deletes a trace; gone from the disk when this returns. The patterns that it led to stay.
   * @param audit written with it; null: the caller records the deletion elsewhere
   * @throws CatalogueError `not_found` for one that is not there, `unavailable` when it cannot be done now
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
   * @param project_id null: the organization's view, which knows the traces of all projects; one without a project
   *   comes first
   * @returns undefined when there is no such trace in sight
   */
  find(org_id: string, project_id: string | null, trace_id: string): TraceRow | undefined {
    if (project_id !== null) return this.#tables.get(TRACES, traceRowKey({ org_id, project_id, trace_id }));
    for (const { value } of this.#tables.range<TraceRow>(TRACES, { prefix: [org_id, trace_id], limit: 1 })) {
      return value;
    }
    return undefined;
  }

  /**
   * Wakes the actors of traces that a crash left unfinished. To be called at the start and now and then, since no more
   * than so many are woken at once; a trace that is under way does not mind.
   * @returns how many were woken
   */
  async resume(): Promise<number> {
    let woken = 0;
    const rows = [...this.#tables.range(UNFINISHED_TRACES, { prefix: [], limit: WAKES })];
    for (const { row } of rows) {
      const to = { kind: PATTERN_MAKER_KIND, key: String(row[0]) };
      try {
        await this.#asker.ask(to, 'wake', null, { deadline_ms: WAKE_DEADLINE_MS });
        woken++;
      } catch (thrown) {
        // No room or no thread: the next call finds it again.
        if (thrown instanceof RuntimeError && thrown.retryable) break;
        throw new CatalogueError('unavailable', undefined, { cause: thrown });
      }
    }
    return woken;
  }
}
