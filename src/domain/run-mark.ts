/**
 * What is said of a captured run from outside its copy: the outcome that a monitor run of its id finished with, and a person's
 * mark. `weighWords` puts both into the verdict on the copy. Pure; any thread.
 *
 * A mark overrules how the run went, in both directions. `bad`: the run is not golden, whatever else it is. `good`: failed
 * calls, an unfinished end, a reported failure and monitors do not count. It cannot make up for a copy that is incomplete, out
 * of order or read wrongly: nothing can be learned from what is not there.
 */
import { type GoldenCode, type GoldenReason, type GoldenVerdict, judgeOutcome } from './golden.ts';

export const MARKS = ['good', 'bad'] as const;
export type RunMark = (typeof MARKS)[number];

/** In `main.mdb`, [run_id] → RunMarkRow. Marks stay when captures or monitor runs expire. */
export const RUN_MARKS = 'run_marks';

export interface RunMarkRow {
  mark: RunMark;
  /** RFC 3339. */
  marked_at: string;
  /** The user, key or operator. */
  marked_by: string;
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

/** What is said of a run from outside its copy; null: nothing. */
export interface RunWords {
  /** Of the finished monitor run of its id, if its organization may speak of captures; of several, one that is no success. */
  outcome: string | null;
  mark: RunMark | null;
}

export const NO_WORDS: RunWords = { outcome: null, mark: null };

/** What a person's `good` overrules. */
const OVERRULED: ReadonlySet<GoldenCode> = new Set(['failed_call', 'unfinished', 'outcome', 'monitor_fired']);

/** A verdict with what was said from outside. */
interface WeighedVerdict extends GoldenVerdict {
  /** What would speak against the run without the mark. */
  overruled: GoldenReason[];
}

/** @param found what speaks against the copy */
export function weighWords(found: readonly GoldenReason[], { outcome, mark }: RunWords): WeighedVerdict {
  const against = judgeOutcome(outcome);
  const all = against === null ? [...found] : [...found, against];
  if (mark === 'bad') all.push({ code: 'marked_bad', words: 'a person marked it bad' });
  const isOverruled = ({ code }: GoldenReason): boolean => mark === 'good' && OVERRULED.has(code);
  const reasons = all.filter((reason) => !isOverruled(reason));
  return { golden: reasons.length === 0, reasons, overruled: all.filter(isOverruled) };
}
