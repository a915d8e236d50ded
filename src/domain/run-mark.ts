/**
 * External statements about a captured run: the outcome of the monitor run with its id, and a person's marks
 * (good or bad, tags, a note, a score). `weighWords` combines both with the verdict on the copy. Pure; any
 * thread.
 *
 * A mark overrules the verdict on how the run went, in both directions. `bad`: the run is not golden. `good`:
 * failed calls, an unfinished end, a reported failure and monitors do not count. But a mark cannot repair a
 * copy that is incomplete, out of order or read wrongly, because missing content cannot teach anything.
 */
import { UNPRINTABLE } from '../std/unprintable.ts';
import { type GoldenCode, type GoldenReason, type GoldenVerdict, judgeOutcome } from './golden.ts';

export const MARKS = ['good', 'bad'] as const;
export type RunMark = (typeof MARKS)[number];

/**
 * In `main.mdb`, [run_id, org_id] → RunMarkRow; the key is [run_id] for captures that belong to the operator.
 * Marks stay when captures expire. They are removed with a monitor run that retention removes, and when a run is
 * deleted or erased.
 */
export const RUN_MARKS = 'run_marks';
/** In `main.mdb`, [org_id, run_id] → true: which runs an organization has marked. */
export const RUN_MARKS_BY_ORG = 'run_marks_by_org';

/** Maximum number of tags per run, and of characters per tag. */
export const RUN_TAGS = { count: 32, characters: 64 } as const;
/** Maximum number of tags per request, and of characters read from its header. */
const HEADER_TAGS = 8;
const TAG_HEADER_CHARACTERS = 1_024;
export const RUN_NOTE_CHARACTERS = 4_000;
/** A tag has no comma, which separates tags in a header, and no invisible characters. */
export const TAG_PATTERN = new RegExp(`^[^${UNPRINTABLE},]+$`, 'u');

/** The marks that people and their programs give a run. */
export interface RunMarks {
  mark: RunMark | null;
  tags: readonly string[];
  /** '' without one. */
  note: string;
  /** 0 to 1; null: none. */
  feedback_score: number | null;
}

/** The stored form. Versions up to 0.1 stored only the mark. */
export interface RunMarkRow extends Partial<RunMarks> {
  /** RFC 3339. */
  marked_at: string;
  /** The user, key or operator. */
  marked_by: string;
}

/** Absent fields stay unchanged; null removes a value. */
export interface RunMarkChange {
  mark?: RunMark | null | undefined;
  /** Replaces all tags. */
  tags?: readonly string[] | null | undefined;
  add_tags?: readonly string[] | null | undefined;
  remove_tags?: readonly string[] | null | undefined;
  note?: string | null | undefined;
  feedback_score?: number | null | undefined;
}

export const NO_MARKS: RunMarks = { mark: null, tags: [], note: '', feedback_score: null };

export function readMarks(row: RunMarkRow | undefined): RunMarks {
  if (row === undefined) return NO_MARKS;
  const { mark = null, tags = [], note = '', feedback_score = null } = row;
  return { mark, tags, note, feedback_score };
}

/**
 * Applies a change to marks.
 * @throws RangeError if the run would have too many tags
 */
export function changeMarks(before: RunMarks, change: RunMarkChange): RunMarks {
  const { mark = before.mark, tags = before.tags, note = before.note } = change;
  const { feedback_score = before.feedback_score, add_tags, remove_tags } = change;
  const gone = new Set(cleanTags(remove_tags ?? []));
  const kept = cleanTags([...(tags ?? []), ...(add_tags ?? [])]).filter((tag) => !gone.has(tag));
  if (kept.length > RUN_TAGS.count) throw new RangeError(`a run has at most ${RUN_TAGS.count} tags`);
  return { mark, tags: kept, note: (note ?? '').trim(), feedback_score };
}

/**
 * Reads the comma-separated tags of a header: at most HEADER_TAGS valid ones, from the first TAG_HEADER_CHARACTERS
 * characters.
 */
export function readTagHeader(value: string): string[] {
  const isTag = (tag: string) => tag.length <= RUN_TAGS.characters && TAG_PATTERN.test(tag);
  return cleanTags(value.slice(0, TAG_HEADER_CHARACTERS).split(',')).filter(isTag).slice(0, HEADER_TAGS);
}

/** Removes surrounding white space, then empty tags and duplicates. */
export function cleanTags(tags: readonly string[]): string[] {
  return [...new Set(tags.map((tag) => tag.trim()).filter((tag) => tag !== ''))];
}

export function isUnmarked({ mark, tags, note, feedback_score }: RunMarks): boolean {
  return mark === null && tags.length === 0 && note === '' && feedback_score === null;
}

/** The owner of the captures. */
export interface CaptureOwner {
  /** GW_ORG; null: they belong to the operator. */
  org: string | null;
  /** Verified addresses of operators. */
  emails: readonly string[];
  /** The user who signs in with the link that the service prints in the terminal; null if it prints none. */
  owner: { issuer: string; subject: string } | null;
}

/** External statements about a run. */
export interface RunWords extends RunMarks {
  /**
   * Outcome of the finished monitor run with its id, if the statements of that run's organization count for
   * captures. If there are several such runs, an outcome other than success counts. null: no outcome.
   */
  outcome: string | null;
}

export const NO_WORDS: RunWords = { outcome: null, ...NO_MARKS };

/** Reasons that a person's `good` overrules. */
const OVERRULED: ReadonlySet<GoldenCode> = new Set(['failed_call', 'unfinished', 'outcome', 'monitor_fired']);

/** A verdict, combined with external statements. */
interface WeighedVerdict extends GoldenVerdict {
  /** Reasons against the run that the mark overrules. */
  overruled: GoldenReason[];
}

/**
 * Combines the verdict on the copy with external statements.
 * @param found reasons against the copy
 */
export function weighWords(
  found: readonly GoldenReason[],
  { outcome, mark }: Pick<RunWords, 'outcome' | 'mark'>,
): WeighedVerdict {
  const against = judgeOutcome(outcome);
  const all = against === null ? [...found] : [...found, against];
  if (mark === 'bad') all.push({ code: 'marked_bad', words: 'a person marked it bad' });
  const isOverruled = ({ code }: GoldenReason): boolean => mark === 'good' && OVERRULED.has(code);
  const reasons = all.filter((reason) => !isOverruled(reason));
  return { golden: reasons.length === 0, reasons, overruled: all.filter(isOverruled) };
}

/**
 * Whether the run is golden according to {@link weighWords}. Allocates nothing, so it suits a filter over many runs.
 */
export function isGoldenWith(
  found: readonly GoldenReason[],
  { outcome, mark }: Pick<RunWords, 'outcome' | 'mark'>,
): boolean {
  if (mark === 'bad') return false;
  if (mark === 'good') return found.every(({ code }) => OVERRULED.has(code));
  return found.length === 0 && judgeOutcome(outcome) === null;
}
