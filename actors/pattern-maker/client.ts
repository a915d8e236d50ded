/**
 * Submits traces and reads their outcomes. Sends the pattern maker's messages; no other file does. Server threads.
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

/** How long a legacy trace may take, including the wait for other traces and for a language model. */
const SUBMIT_DEADLINE_MS = 30_000;
const WAKE_DEADLINE_MS = 5_000;
/** Maximum number of unfinished traces that one call wakes; the next call wakes further ones. */
const WAKES = 1_000;

export class PatternMakerClient {
  readonly #asker: Asker;
  readonly #tables: TableReader;

  constructor(asker: Asker, tables: TableReader) {
    this.#asker = asker;
    this.#tables = tables;
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
   * Deletes a trace. It is gone from the disk when this resolves. Patterns made from it stay.
   * @param audit entry that is written with the deletion; null: the caller records it elsewhere
   * @throws CatalogueError `not_found` if it does not exist, `unavailable` if it is not possible now
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
   * @param project_id null: the organization's view, which includes the traces of all projects; a trace without a
   *   project comes first
   * @returns undefined if no such trace exists or is visible
   */
  find(org_id: string, project_id: string | null, trace_id: string): TraceRow | undefined {
    if (project_id !== null) return this.#tables.get(TRACES, traceRowKey({ org_id, project_id, trace_id }));
    for (const { value } of this.#tables.range<TraceRow>(TRACES, { prefix: [org_id, trace_id], limit: 1 })) {
      return value;
    }
    return undefined;
  }

  /**
   * Wakes the actors of traces that a crash left unfinished. Call it at the start and at intervals, because each call
   * wakes a limited number. Traces in progress are not affected.
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
        // The queue is full, or the thread is down. The next call finds the trace again.
        if (thrown instanceof RuntimeError && thrown.retryable) break;
        throw new CatalogueError('unavailable', undefined, { cause: thrown });
      }
    }
    return woken;
  }
}
