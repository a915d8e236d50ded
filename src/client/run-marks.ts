/**
 * The marks that an agent gives a run: good or bad, tags, a note, a score, within the service's limits. Pure;
 * any thread.
 */
import type { RequestOf } from './operations.ts';
import { cutText } from './step.ts';

export interface RunMarks {
  /** How the run went. */
  mark?: 'good' | 'bad';
  /** Tags to add: 1 to 64 visible characters each, without commas. A run has at most 32 tags. */
  tags?: readonly string[];
  /** Free text; replaces the previous one. It is cut at 4,000 characters. */
  note?: string;
  /** Score from a user, 0 to 1. */
  feedbackScore?: number;
}

/** The body of the request. */
export type MarkBody = RequestOf<'markRun'>['body'];

/** The service's values and limits. */
const MARKS: readonly unknown[] = ['good', 'bad'];
const TAGS_MAX = 32;
const TAG_CHARACTERS = 64;
const NOTE_UNITS = 4_000;
/**
 * Control and invisible formatting characters, line and paragraph separators, lone surrogates, and
 * the comma, which separates tags.
 */
const NO_TAG = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp},]/u;

/**
 * Makes the body of a request from marks. A long note is cut. Other parts that the service would refuse are left out.
 * @param leaveOut called for each part that is cut or left out
 * @returns null if nothing is left to send
 */
export function boundMarks(said: RunMarks, leaveOut: (what: string) => void): MarkBody | null {
  const { mark, tags, note, feedbackScore } = said;
  const body: MarkBody = {};
  if (MARKS.includes(mark)) body.mark = mark;
  else if (mark !== undefined && mark !== null) leaveOut('a mark is good or bad');
  const kept = readTags(tags, leaveOut);
  if (kept.length > 0) body.add_tags = kept;
  if (typeof note === 'string') {
    body.note = cutText(note, NOTE_UNITS).toWellFormed();
    if (note.length > NOTE_UNITS) leaveOut(`a note has at most ${NOTE_UNITS} characters`);
  } else if (note !== undefined && note !== null) leaveOut('a note is a text');
  if (typeof feedbackScore === 'number' && feedbackScore >= 0 && feedbackScore <= 1)
    body.feedback_score = feedbackScore;
  else if (feedbackScore !== undefined && feedbackScore !== null) leaveOut('a score is a number from 0 to 1');
  return Object.keys(body).length === 0 ? null : body;
}

/** Merges earlier and later marks: later values replace earlier values, and tags are added. */
export function joinMarks(first: MarkBody, later: MarkBody, leaveOut: (what: string) => void): MarkBody {
  const tags = keepTags([...(first.add_tags ?? []), ...(later.add_tags ?? [])], leaveOut);
  return { ...first, ...later, ...(tags.length === 0 ? {} : { add_tags: tags }) };
}

function readTags(tags: unknown, leaveOut: (what: string) => void): string[] {
  if (tags === undefined || tags === null) return [];
  if (!Array.isArray(tags)) {
    leaveOut('tags are a list');
    return [];
  }
  const texts = tags.map((tag) => (typeof tag === 'string' ? tag.trim() : ''));
  const fit = texts.filter((tag) => tag !== '' && !NO_TAG.test(tag) && [...tag].length <= TAG_CHARACTERS);
  if (fit.length < texts.length)
    leaveOut(`a tag has 1 to ${TAG_CHARACTERS} visible characters, and no comma`);
  return keepTags(fit, leaveOut);
}

function keepTags(tags: readonly string[], leaveOut: (what: string) => void): string[] {
  const kept = [...new Set(tags)];
  if (kept.length > TAGS_MAX) leaveOut(`a run has at most ${TAGS_MAX} tags`);
  return kept.slice(0, TAGS_MAX);
}
