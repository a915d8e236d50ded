/**
 * Which reports of tool calls are the same call. A span, a log event and the messages that a model is sent may each report a
 * call, and each kind of record reports it once. So the n-th report of a call by one kind and the n-th by another are the same
 * call, even where all calls of a run share one id. Pure; server threads.
 *
 * A call is found by the id that the model gave it. A span or an event without an id (a wrapper such as Traceloop's
 * `withTool`) is found by the tool's name.
 */
import { hash } from 'node:crypto';

/** Kinds of records that report calls. */
const REPORT_KINDS = ['span', 'event', 'message'] as const;
export type ReportKind = (typeof REPORT_KINDS)[number];

/** A call as one record tells it. */
export interface CallReport {
  /** Names the report within the run: the same report, sent again, has the same. */
  key: string;
  told_by: ReportKind;
  /** The id that the model gave the call; '' for none. */
  call: string;
  /** The tool's name. */
  tool: string;
}

/** Counts of reports, one for each of {@link REPORT_KINDS}. */
type Counts = readonly number[];

/**
 * By the names that {@link countNamesOf} gives: of a call's id the reports; of a tool the calls that were first reported with
 * an id, and behind them the reports without one.
 */
export type ReportCounts = Map<string, Counts>;

/** The counts that decide about a report. They are no keys of reports: those hold no space. */
export function countNamesOf({ call, tool }: CallReport): string[] {
  return call === '' ? [toolName(tool)] : [toolName(tool), callName(call)];
}

/**
 * Counts a report that has not come before.
 * @param counts has all names that {@link countNamesOf} gives; absent: no count. What changes is set anew
 * @returns whether another kind of record has reported the call already
 */
export function takeReport({ told_by, call, tool }: CallReport, counts: ReportCounts): boolean {
  const kind = REPORT_KINDS.indexOf(told_by);
  const kinds = REPORT_KINDS.length;
  const ofTool = [...(counts.get(toolName(tool)) ?? new Array<number>(2 * kinds).fill(0))];
  const withId = ofTool.slice(0, kinds);
  const bare = ofTool.slice(kinds);
  if (call === '') {
    ofTool[kinds + kind]! += 1;
    counts.set(toolName(tool), ofTool);
    return bare[kind]! < sumOf(withId) - withId[kind]!;
  }
  const ofCall = [...(counts.get(callName(call)) ?? new Array<number>(kinds).fill(0))];
  const isKnown = ofCall.some((count) => count > ofCall[kind]!);
  ofCall[kind]! += 1;
  counts.set(callName(call), ofCall);
  if (isKnown) return true;
  ofTool[kind]! += 1;
  counts.set(toolName(tool), ofTool);
  return bare.some((count, other) => other !== kind && sumOf(withId) - withId[other]! < count);
}

function sumOf(counts: Counts): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function callName(call: string): string {
  return `call ${hash('sha256', call, 'base64url')}`;
}

function toolName(tool: string): string {
  return `tool ${hash('sha256', tool, 'base64url')}`;
}
