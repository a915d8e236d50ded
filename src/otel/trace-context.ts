/** W3C trace context as a client sent it, and ids derived from names. Pure; any thread. */
import { hash } from 'node:crypto';

/** The client's own span. */
interface TraceParent {
  trace_id: string;
  span_id: string;
  flags: number;
  /** `tracestate`, as received. */
  state: string;
}

const FORM = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:$|-)/;
/** Length of `tracestate` that W3C's recommendation requires to be kept. */
const STATE_CHARACTERS = 512;

/**
 * Reads the client's span from the headers.
 * @returns null unless there is exactly one `traceparent` and it is valid. A longer `tracestate` than STATE_CHARACTERS
 *   counts as absent
 */
export function readTraceParent(
  headers: readonly (readonly [name: string, value: string])[],
): TraceParent | null {
  let parent: string | null = null;
  const states: string[] = [];
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    if (lower === 'traceparent') {
      // More than one `traceparent` counts as absent.
      if (parent !== null) return null;
      parent = value.trim();
    } else if (lower === 'tracestate') states.push(value.trim());
  }
  const [, trace_id, span_id, flags] = FORM.exec(parent ?? '') ?? [];
  if (trace_id === undefined || span_id === undefined || flags === undefined) return null;
  // Version 00 has nothing after its flags.
  if (parent!.startsWith('00') && parent!.length !== 55) return null;
  const state = states.join(',');
  return {
    trace_id,
    span_id,
    flags: Number.parseInt(flags, 16),
    state: state.length <= STATE_CHARACTERS ? state : '',
  };
}

/** Derives a trace id from a name. An id of zeros, which is invalid, is too improbable to occur. */
export function traceIdOf(name: string): string {
  return hash('sha256', `trace\n${name}`).slice(0, 32);
}

export function spanIdOf(name: string): string {
  return hash('sha256', `span\n${name}`).slice(0, 16);
}
