/**
 * What is said of a run from outside its copy: the outcome that a monitor run of its id finished with, and a person's marks (good
 * or bad, tags, a note, a score). `weighWords` puts both into the verdict on the copy. Pure; any thread.
 *
 * A mark overrules how the run went, in both directions. `bad`: the run is not golden, whatever else it is. `good`: failed
 * calls, an unfinished end, a reported failure and monitors do not count. It cannot make up for a copy that is incomplete, out
 * of order or read wrongly: nothing can be learned from what is not there.
 */
import { UNPRINTABLE } from '../std/unprintable.ts';
import { type GoldenCode, type GoldenReason, type GoldenVerdict, judgeOutcome } from './golden.ts';

export const MARKS = ['good', 'bad'] as const;
export type RunMark = (typeof MARKS)[number];

/**
 * In `main.mdb`, [run_id, org_id] → RunMarkRow; [run_id] of captures that belong to the operator. Marks stay when captures or
 * monitor runs expire, and go when a run is deleted or erased.
 */
export const RUN_MARKS = 'run_marks';
/** In `main.mdb`, [org_id, run_id] → true: which runs an organization has marked. */
export const RUN_MARKS_BY_ORG = 'run_marks_by_org';

/** A run has so many tags at most, each of so many characters. */
export const RUN_TAGS = { count: 32, characters: 64 } as const;
/** Tags that one request brings, and how much of its header is read. */
const HEADER_TAGS = 8;
const TAG_HEADER_CHARACTERS = 1_024;
export const RUN_NOTE_CHARACTERS = 4_000;
/** A tag: no comma, which separates tags in a header, and nothing invisible. */
export const TAG_PATTERN = new RegExp(`^[^${UNPRINTABLE},]+$`, 'u');

/** What people and their programs say of a run. */
export interface RunMarks {
  mark: RunMark | null;
  tags: readonly string[];
  /** '' without one. */
  note: string;
  /** 0 to 1; null: none. */
  feedback_score: number | null;
}

/** As stored. Versions up to 0.1 stored a mark alone. */
export interface RunMarkRow extends Partial<RunMarks> {
  /** RFC 3339. */
  marked_at: string;
  /** The user, key or operator. */
  marked_by: string;
}

/** What is left out stays as it was; null takes it away. */
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

/** @throws RangeError when the run would have too many tags */
export function changeMarks(before: RunMarks, change: RunMarkChange): RunMarks {
  const { mark = before.mark, tags = before.tags, note = before.note } = change;
  const { feedback_score = before.feedback_score, add_tags, remove_tags } = change;
  const gone = new Set(cleanTags(remove_tags ?? []));
  const kept = cleanTags([...(tags ?? []), ...(add_tags ?? [])]).filter((tag) => !gone.has(tag));
  if (kept.length > RUN_TAGS.count) throw new RangeError(`a run has at most ${RUN_TAGS.count} tags`);
  return { mark, tags: kept, note: (note ?? '').trim(), feedback_score };
}

/** The tags of a header with commas between them; what is no tag is left out. */
export function readTagHeader(value: string): string[] {
  const isTag = (tag: string) => tag.length <= RUN_TAGS.characters && TAG_PATTERN.test(tag);
  return cleanTags(value.slice(0, TAG_HEADER_CHARACTERS).split(',')).filter(isTag).slice(0, HEADER_TAGS);
}

/** Each once, without space around it. */
export function cleanTags(tags: readonly string[]): string[] {
  return [...new Set(tags.map((tag) => tag.trim()).filter((tag) => tag !== ''))];
}

export function isUnmarked({ mark, tags, note, feedback_score }: RunMarks): boolean {
  return mark === null && tags.length === 0 && note === '' && feedback_score === null;
}

/** To whom captures belong. */
export interface CaptureOwner {
  /** GW_ORG; null: they are the operator's. */
  org: string | null;
  /** Verified addresses of operators. */
  emails: readonly string[];
  /** The user of the terminal's link; null where it signs in no one. */
  owner: { issuer: string; subject: string } | null;
}

/** What is said of a run from outside its copy. */
export interface RunWords extends RunMarks {
  /**
   * Of the finished monitor run of its id, if its organization may speak of captures; of several, one that is no success. null:
   * none.
   */
  outcome: string | null;
}

export const NO_WORDS: RunWords = { outcome: null, ...NO_MARKS };

/** What a person's `good` overrules. */
const OVERRULED: ReadonlySet<GoldenCode> = new Set(['failed_call', 'unfinished', 'outcome', 'monitor_fired']);

/** A verdict with what was said from outside. */
interface WeighedVerdict extends GoldenVerdict {
  /** What would speak against the run without the mark. */
  overruled: GoldenReason[];
}

/** @param found what speaks against the copy */
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
