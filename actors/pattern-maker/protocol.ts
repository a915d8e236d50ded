/**
 * What a pattern maker understands. One persistent actor a submitted trace, so that its retries are serial, its answer the
 * same each time, and a crash costs one trace its attempt. Any thread.
 */

import { createHash } from 'node:crypto';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { TraceAddress, TraceStatus } from '../../src/domain/trace-rows.ts';

/** The name under which actors of this kind are stored; databases of earlier versions hold it. */
export const PATTERN_MAKER_KIND = 'distiller';

/** The bodies of traces that are not distilled yet: `[actor key]` → compressed bytes. */
export const TRACE_BODIES = 'trace_bodies';
/** Which actors have work left, for the start after a crash: `[actor key]` → 1. */
export const UNFINISHED_TRACES = 'traces_unfinished';

/** `legacy` is distilled before the answer, `v2` after it. */
type TraceStyle = 'legacy' | 'v2';

/** The trace itself travels as the message's one body, packed by trace-body.ts. */
export interface SubmitRequest extends TraceAddress {
  /** Of the body as it was sent: the same trace again is recognized by it. */
  fingerprint: string;
  style: TraceStyle;
  /** Project under which the trace is counted. */
  usage_project: string;
}

export interface SubmitReply {
  status: TraceStatus;
  /** New patterns, those merged into older ones not counted. */
  patterns_created: number;
}

export type PatternMakerProtocol = {
  /**
   * Takes a trace. Answered when it is queued (`v2`) or distilled (`legacy`). Refused with `conflict` when the same id
   * came with another body, with `distillation_failed` when a legacy trace could not be distilled.
   */
  submit: { request: SubmitRequest; reply: SubmitReply };
  /** Deletes the trace, also one that is being distilled. Refused with `trace_not_found`. */
  delete: { request: { audit: AuditEntry | null }; reply: null };
  /** Goes on with what was left undone; answered at once. */
  wake: { request: null; reply: null };
};

/** The actor of a trace: ids may have any length and characters, so their digest stands for them. */
export function patternMakerKey({ org_id, project_id, trace_id }: TraceAddress): string {
  return createHash('sha256')
    .update(JSON.stringify([org_id, project_id, trace_id]))
    .digest('base64url');
}
