/**
 * Decides which reports are about the same tool call. A span, a log event and the messages of a model request may
 * each report a call, and each kind of record reports it once. So the n-th report of a call by one kind and the n-th
 * by another are about the same call, even if all calls of a run have the same id. Pure; server threads.
 * A call is identified by the id that the model gave it. A span or an event without an id (a wrapper such as
 * Traceloop's `withTool`) is identified by the tool's name.
 */
import { hash } from 'node:crypto';

/** Kinds of records that report calls. */
const REPORT_KINDS = ['span', 'event', 'message'] as const;
export type ReportKind = (typeof REPORT_KINDS)[number];

/** A call as reported by one record. */
export interface CallReport {
  /** Identifies the report within the run: a repeated report has the same key. */
  key: string;
  told_by: ReportKind;
  /** The id that the model gave the call; '' without one. */
  call: string;
  /** The tool's name. */
  tool: string;
}

/** Counts of reports, one for each of {@link REPORT_KINDS}. */
type Counts = readonly number[];

/**
 * Counts by the names that {@link countNamesOf} returns. For a call's id: the number of its reports. For a tool: the
 * number of calls first reported with an id, followed by the number of reports without one.
 */
export type ReportCounts = Map<string, Counts>;

/**
 * Lists the names of the counts by which {@link takeReport} decides about a report. They never equal keys of reports,
 * which contain no space.
 */
export function countNamesOf({ call, tool }: CallReport): string[] {
  return call === '' ? [toolName(tool)] : [toolName(tool), callName(call)];
}

/**
 * Counts a new report.
 * @param counts has all names that {@link countNamesOf} returns; an absent one counts as 0. Changed counts are
 *   replaced
 * @returns whether a record of another kind has already reported the call
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
