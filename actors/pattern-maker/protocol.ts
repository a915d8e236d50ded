/**
 * The pattern maker's messages. Each submitted trace has one persistent actor, so that attempts at a trace run one
 * after the other, its answer stays the same, and a crash affects only one attempt of one trace. Any thread.
 */

import { createHash } from 'node:crypto';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { TraceAddress, TraceStatus } from '../../src/domain/trace-rows.ts';

/** The stored name of this kind of actor, as databases of earlier versions contain it. */
export const PATTERN_MAKER_KIND = 'distiller';

/** The bodies of traces that are not processed yet: `[actor key]` → compressed bytes. */
export const TRACE_BODIES = 'trace_bodies';

/** A `legacy` trace is processed before the answer, a `v2` trace after it. */
type TraceStyle = 'legacy' | 'v2';

/** A request to submit a trace. The trace itself is the message's only body, packed by trace-body.ts. */
export interface SubmitRequest extends TraceAddress {
  /** Digest of the body as the client sent it, by which a repeated request is recognized. */
  fingerprint: string;
  style: TraceStyle;
  /** Project for which the trace's usage is counted. */
  usage_project: string;
}

export interface SubmitReply {
  status: TraceStatus;
  /** New patterns, without those merged into existing ones. */
  patterns_created: number;
}

export type PatternMakerProtocol = {
  /**
   * Accepts a trace. Answered when it is queued (`v2`) or processed (`legacy`). Refused with `conflict` if the same
   * id was used with another body, with `distillation_failed` if a legacy trace could not be processed.
   */
  submit: { request: SubmitRequest; reply: SubmitReply };
  /** Deletes the trace, even while it is being processed. Refused with `trace_not_found` if there is no such trace. */
  delete: { request: { audit: AuditEntry | null }; reply: null };
  /** Continues unfinished work; answered at once. */
  wake: { request: null; reply: null };
};

/** Makes the key of a trace's actor: a digest, because ids may have any length and any characters. */
export function patternMakerKey({ org_id, project_id, trace_id }: TraceAddress): string {
  return createHash('sha256')
    .update(JSON.stringify([org_id, project_id, trace_id]))
    .digest('base64url');
}
