/**
 * A stretch in words: where the run stood, what it tried in vain, what got it out. Everything is quoted from the run
 * itself; the sentences around the quotes are ours. Pure; actor threads.
 */

import { PATTERN_BOUNDS } from '../../limits.ts';
import type { Trace } from '../trace.ts';
import type { TraceStep } from '../trace-step.ts';
import { commandLine, ERROR_CHARACTERS, isShell, type StepVerdict } from './failures.ts';
import type { Stretch } from './stretches.ts';
import { oneLine, renderJson, splitSentences } from './text.ts';

export interface PatternTexts {
  situation: string;
  dead_ends: string;
  unlock: string;
}

/** The texts, and how much of the unlock is explained rather than only recorded: 0 … 4. */
export interface Wording extends PatternTexts {
  insight: number;
}

const DEAD_ENDS = 5;
/** Attempts named before a check that failed. */
const ATTEMPTS = 2;
/** How many steps before the first failure its attempt may lie. */
const FIRST_ATTEMPT_REACH = 4;
/** Tools that change what is checked later. */
const EDIT =
  /^(?:(?:multi_?|str_replace_|file_)?edit|apply|write|patch|replace|insert|update|create|modify|set)/i;
/** Of the goal and the error in a situation: the task must stay the larger part, for it is what is searched by. */
const GOAL_CHARACTERS = 140;
const CALL_CHARACTERS = 180;
/** More differences than these are another call, not a changed one. */
const CHANGES = 3;
const NAMELESS = 'a step without a name';
const CAUSAL =
  /\b(?:because|since|need(?:s|ed)? to|should|must|instead|missing|requires?|correct(?:ly)?|proper(?:ly)?|actually|turns? out|so (?:I|we|let)|fix|reason|therefore|rather than|not .{1,40} but|by (?:using|adding|changing|setting|removing))\b/i;
/** Words with which agents open that say nothing. */
const OPENER = /^(?:okay|ok|alright|great|perfect|good|now|sure|of course|certainly|hmm|well)[,.!:]\s+/i;
/** Greetings and frames around a task. */
const FRAME =
  /^(?:hi|hello|hey|good (?:morning|afternoon|evening)|dear|thanks|thank you|please help|we're currently solving|we are currently solving|here's the|here is the|you are |your task|instructions?:?$|issue:?$|task:?$|description:?$|initial plan|question:?$)/i;

/** What is failing when the same thing fails for no reason of the caller. */
const TRANSIENT =
  /\b(?:timed? ?out|timeout|temporar|try again|rate limit|too many requests|429|50[0234]|connection (?:reset|refused|closed)|ECONNRESET|unavailable|overloaded|busy|locked|deadlock)\b/i;

/** Puts a stretch into words; null when there is nothing to say that would help. */
export function wordStretch(
  trace: Trace,
  stretch: Stretch,
  verdicts: readonly StepVerdict[],
): Wording | null {
  const unlock = wordUnlock(trace.steps, stretch, verdicts);
  if (unlock === null) return null;
  return {
    situation: wordSituation(trace, stretch, verdicts),
    dead_ends: wordDeadEnds(trace.steps, stretch, verdicts),
    unlock: unlock.text,
    insight: unlock.insight,
  };
}

// ---------------------------------------------------------------------------------------------------------------
// Situation

/** The task in at most two or three sentences, without greetings and frames. */
export function summarizeTask(task: string): string {
  const sentences = splitSentences(task.replace(/```[\s\S]{0,4000}?(?:```|$)/g, '\n'), 30);
  const told = sentences.filter((sentence) => !FRAME.test(sentence) && sentence.length > 2);
  const kept: string[] = [];
  let length = 0;
  for (const sentence of told.length > 0 ? told : sentences) {
    if (kept.length > 0 && length + sentence.length > 280) break;
    kept.push(endSentence(oneLine(sentence, 280)));
    length += sentence.length;
    if (kept.length >= 4) break;
  }
  return kept.join(' ');
}

function wordSituation(trace: Trace, stretch: Stretch, verdicts: readonly StepVerdict[]): string {
  const first = stretch.failures[0]!;
  const step = trace.steps[first]!;
  const task = summarizeTask(trace.task) || summarizeTask(trace.steps[0]?.thought ?? '');
  const goal = findGoal(trace.steps, first, task);
  const { error } = verdicts[first]!;
  const stuck =
    stretch.way === 'loop'
      ? `Stuck repeating ${quote(nameAction(step))} ${stretch.failures.length} times without getting further.`
      : error === ''
        ? `Stuck at ${quote(nameAction(step))}, which failed.`
        : `Stuck at ${quote(nameAction(step))}, which failed: ${endSentence(oneLine(error, GOAL_CHARACTERS))}`;
  return bound(
    [task, goal === '' ? '' : `Goal then: ${goal}`, stuck].filter(Boolean).join(' '),
    PATTERN_BOUNDS.situation,
  );
}

/** What the agent was after when it failed: its own thought, else what the user had last said. */
function findGoal(steps: readonly TraceStep[], at: number, task: string): string {
  const own = splitSentences(steps[at]!.thought, 6).map(clean).filter(Boolean);
  const sentence = own.find((candidate) => candidate.length > 20) ?? own[0];
  if (sentence !== undefined)
    return task.includes(sentence) ? '' : endSentence(oneLine(sentence, GOAL_CHARACTERS));
  for (let before = at - 1; before >= 0 && before >= at - 8; before--) {
    const step = steps[before]!;
    if (!/^(?:respond|response|reply|message|send_message|ask)/i.test(step.action)) continue;
    const words = summarizeTask(step.observation);
    if (words !== '' && !task.includes(words)) return oneLine(words, GOAL_CHARACTERS);
  }
  return '';
}

// ---------------------------------------------------------------------------------------------------------------
// Dead ends

function wordDeadEnds(
  steps: readonly TraceStep[],
  stretch: Stretch,
  verdicts: readonly StepVerdict[],
): string {
  const counted = new Map<string, number>();
  for (const at of stretch.failures) {
    const { error } = verdicts[at]!;
    const answer = error || firstLine(steps[at]!.observation, 120);
    const attempts = findAttempts(steps, stretch, verdicts, at).map((tried) =>
      quote(describeCall(steps[tried]!)),
    );
    const call = [...attempts, `${attempts.length === 0 ? '' : 'then '}${quote(describeCall(steps[at]!))}`];
    const line = `${call.join(', ')}${answer === '' ? ' failed' : ` → ${answer}`}`;
    counted.set(line, (counted.get(line) ?? 0) + 1);
  }
  const lines = [...counted].map(([line, times]) => `- ${line}${times > 1 ? ` (${times} times)` : ''}`);
  // The first tells how it began, the last what was tried just before it worked.
  const kept = lines.length <= DEAD_ENDS ? lines : [...lines.slice(0, 2), ...lines.slice(-(DEAD_ENDS - 2))];
  if (lines.length > DEAD_ENDS) kept.splice(2, 0, `- (${lines.length - DEAD_ENDS} more like these)`);
  return bound(kept.join('\n'), PATTERN_BOUNDS.dead_ends);
}

/**
 * What was tried before a check that failed. A check is a call that comes again unchanged, a test run say: it only shows that
 * what was changed before it did not help.
 * @returns steps that changed something since the failure before, the last two; none where the call is itself what was tried
 */
function findAttempts(
  steps: readonly TraceStep[],
  { failures, recovery, way }: Stretch,
  verdicts: readonly StepVerdict[],
  at: number,
): number[] {
  const isSameCall = (other: number): boolean =>
    steps[other]!.action === steps[at]!.action && steps[other]!.action_input === steps[at]!.action_input;
  const isCheck = isSameCall(recovery) || failures.some((other) => other !== at && isSameCall(other));
  if (way === 'loop' || !isCheck) return [];
  const before = failures[failures.indexOf(at) - 1];
  const found: number[] = [];
  for (let tried = at - 1; tried > (before ?? Math.max(-1, at - FIRST_ATTEMPT_REACH)); tried--) {
    const { failed, is_talk, is_look } = verdicts[tried]!;
    if (failed || is_talk || is_look || isSameCall(tried)) continue;
    // Ahead of the first failure stands all the work so far. What it checks is the edit that comes right before it.
    if (before === undefined && !EDIT.test(steps[tried]!.action.trim())) break;
    found.unshift(tried);
    if (found.length === (before === undefined ? 1 : ATTEMPTS)) break;
  }
  return found;
}

// ---------------------------------------------------------------------------------------------------------------
// Unlock

function wordUnlock(
  steps: readonly TraceStep[],
  stretch: Stretch,
  verdicts: readonly StepVerdict[],
): { text: string; insight: number } | null {
  const { recovery, failures } = stretch;
  const lastTry = findLastTry(stretch, verdicts);
  const worked = steps[recovery]!;
  const between: number[] = [];
  for (let at = failures.at(-1)! + 1; at < recovery; at++) {
    if (!verdicts[at]!.is_talk && !verdicts[at]!.failed) between.push(at);
  }
  const told = new Set(failures.map((at) => verdicts[at]!.error));
  const why = findReason(steps, failures.at(-1)! + 1, recovery, verdicts, told);
  const failed = steps[lastTry]!;
  const isSame = failed.action === worked.action && failed.action_input === worked.action_input;
  const changes = isSame ? [] : compareInputs(failed, worked);
  if (isSame && between.length === 0) {
    // The same again worked. That is a lesson only where the failure was of the passing kind.
    if (stretch.way === 'loop' || !TRANSIENT.test(verdicts[lastTry]!.error)) return null;
    const text = `The failure was temporary: ${quote(describeCall(worked))} worked when it was tried again unchanged.`;
    return { text: finish(text, why, worked), insight: 1 };
  }
  const parts: string[] = [];
  if (between.length > 0 && stretch.way !== 'loop') {
    const shown = between.slice(-3).map((at) => quote(describeCall(steps[at]!)));
    parts.push(`First ${shown.join(', then ')}.`);
  }
  if (isSame) parts.push(`Then ${quote(describeCall(worked))} again, which now worked.`);
  else if (changes.length > 0)
    parts.push(`What worked: ${quote(nameAction(worked))} with ${changes.join(' and ')}.`);
  else parts.push(`What worked: ${quote(describeCall(worked))}.`);
  const isOther = stretch.way === 'detour';
  const insight =
    (why === '' ? 0 : 2) + (changes.length > 0 || isOther ? 1 : 0) + (between.length > 0 ? 1 : 0);
  return { text: finish(parts.join(' '), why, worked), insight };
}

/** The reason before, the result after what was done. */
function finish(done: string, why: string, worked: TraceStep): string {
  const result = firstLine(worked.observation, 140);
  const parts = [why, done, result === '' ? '' : `Result: ${endSentence(result)}`];
  return bound(parts.filter(Boolean).join(' '), PATTERN_BOUNDS.unlock);
}

/** The last failure that tried what worked in the end, else the last one. */
function findLastTry({ failures, recovery }: Stretch, verdicts: readonly StepVerdict[]): number {
  const { key } = verdicts[recovery]!;
  return failures.findLast((at) => verdicts[at]!.key === key) ?? failures.at(-1)!;
}

/**
 * Why the agent did what worked, in its own words: sentences of its thoughts from the last failure on.
 * @param told sentences that stand among the dead ends already
 */
function findReason(
  steps: readonly TraceStep[],
  from: number,
  to: number,
  verdicts: readonly StepVerdict[],
  told: ReadonlySet<string>,
): string {
  let best = '';
  let bestScore = 0;
  for (let at = Math.max(from, to - 6); at <= to; at++) {
    const step = steps[at]!;
    const thought =
      step.thought ||
      (verdicts[at]!.is_talk && /^think|^thought/i.test(step.action) ? readThought(step.action_input) : '');
    const sentences = splitSentences(thought, 8)
      .map(clean)
      .filter((sentence) => sentence.length >= 20 && !told.has(oneLine(sentence, ERROR_CHARACTERS)));
    for (const [index, sentence] of sentences.entries()) {
      // Nearer to what worked and nearer to the beginning of the thought weighs more, a reason most.
      const score = (CAUSAL.test(sentence) ? 3 : 0) + (at - from + 1) / (to - from + 2) - index * 0.2 + 1;
      if (score > bestScore) {
        const follow = sentence.length < 120 ? sentences[index + 1] : undefined;
        best = endSentence(oneLine(sentence, 280));
        if (follow !== undefined && follow.length < 200 && CAUSAL.test(follow))
          best += ` ${endSentence(follow)}`;
        bestScore = score;
      }
    }
  }
  return best;
}

/** `{"thought": "…"}` of a thinking tool. */
function readThought(input: string): string {
  const fields = readFields(input);
  if (fields === null) return input;
  const text = fields.thought ?? fields.text ?? fields.content;
  return typeof text === 'string' ? text : '';
}

/** What is different in the input that worked: for JSON by field, else by line. At most three; empty when it is more. */
function compareInputs(failed: TraceStep, worked: TraceStep): string[] {
  if (failed.action !== worked.action) return [];
  const [before, after] = [readFields(failed.action_input), readFields(worked.action_input)];
  if (before === null || after === null) return compareLines(failed.action_input, worked.action_input);
  const [was, is] = [listLeaves(before), listLeaves(after)];
  const changes: string[] = [];
  for (const path of new Set([...was.keys(), ...is.keys()])) {
    const [old, now] = [was.get(path), is.get(path)];
    if (old === now) continue;
    // Long values differ somewhere inside; the call as a whole says it better.
    if ((old ?? '').length > 120 || (now ?? '').length > 120) return [];
    if (old === undefined) changes.push(`\`${path}\` = ${now} added`);
    else if (now === undefined) changes.push(`\`${path}\` left out (was ${old})`);
    else changes.push(`\`${path}\` = ${now} instead of ${old}`);
    if (changes.length > CHANGES) return [];
  }
  return changes;
}

/** White space counts: it is what a wrong indentation consists of. */
function compareLines(before: string, after: string): string[] {
  const [was, is] = [before.split('\n'), after.split('\n')];
  // Of a single line the whole call says it better, unless only white space differs.
  const isOther = was.length === 1 && oneLine(before, 500) !== oneLine(after, 500);
  if (was.length !== is.length || isOther) return [];
  const changes: string[] = [];
  for (const [index, line] of is.entries()) {
    const old = was[index]!;
    if (line === old) continue;
    if (line.length > 160 || old.length > 160) return [];
    changes.push(`${quote(line)} instead of ${quote(old)}`);
    if (changes.length > CHANGES) return [];
  }
  return changes;
}

/** The values of a JSON object by their paths; of a large one the first. */
function listLeaves(fields: Record<string, unknown>): Map<string, string> {
  const leaves = new Map<string, string>();
  const visit = (value: unknown, path: string, depth: number): void => {
    if (leaves.size >= 100) return;
    if (typeof value !== 'object' || value === null || depth >= 6) {
      leaves.set(path, oneLine(renderJson(value, 200), 200));
    } else if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) visit(item, `${path}[${index}]`, depth + 1);
    } else {
      for (const [name, item] of Object.entries(value))
        visit(item, path === '' ? name : `${path}.${name}`, depth + 1);
    }
  };
  visit(fields, '', 0);
  return leaves;
}

/** A JSON object's fields, or null for anything else. Inputs are bounded, so parsing is; too deep to print is null. */
function readFields(input: string): Record<string, unknown> | null {
  if (!input.trimStart().startsWith('{') || /[[{]{32}/.test(input.replace(/[^[\]{}]/g, ''))) return null;
  try {
    const value: unknown = JSON.parse(input);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Calls in words

/** The call in a few words: its tool and a short input. */
function nameAction(step: TraceStep): string {
  if (isShell(step.action)) return oneLine(commandLine(step.action_input), 80) || oneLine(step.action, 80);
  const input = step.action_input.trim();
  const isShort = input.length <= 60 && !input.includes('\n') && !/^[[{]/.test(input);
  return oneLine(isShort ? `${step.action} ${input}` : step.action, 120) || NAMELESS;
}

/** A call on one line. */
function describeCall(step: TraceStep): string {
  if (isShell(step.action)) return oneLine(commandLine(step.action_input), CALL_CHARACTERS);
  const fields = readFields(step.action_input);
  if (fields !== null) {
    const shown = Object.entries(fields).map(([name, value]) => `${name}=${showValue(value)}`);
    return oneLine(`${oneLine(step.action, 60)}(${shown.join(', ')})`, CALL_CHARACTERS + 60);
  }
  const input = oneLine(step.action_input.replace(/\nend_of_edit\s*$/, ''), CALL_CHARACTERS);
  return `${oneLine(step.action, 60)} ${input}`.trim() || NAMELESS;
}

/** Short enough that the fields after it are still seen. */
function showValue(value: unknown): string {
  const text = renderJson(value, 200);
  if (text.length <= 64) return text;
  if (Array.isArray(value)) return `[${value.length} items]`;
  return typeof value === 'string' ? JSON.stringify(oneLine(value, 56)) : '{…}';
}

/** The first line that says anything; of JSON its message or status alone, of a file that is shown nothing. */
function firstLine(text: string, most: number): string {
  const start = text.slice(0, 2_000);
  if (/^\s*[[{]/.test(start) && !/^\s*\[File:/.test(start)) {
    const said = /"(?:message|status|result|summary)"\s*:\s*"([^"]{3,120})"/.exec(start);
    return said === null ? '' : oneLine(said[1]!, most);
  }
  if (/^\s*(?:\[File:|\d{1,6}[:\t|→]|<)/.test(start)) return '';
  for (const line of start.split('\n')) {
    const trimmed = line.trim();
    if (/[\p{L}\p{N}]{2}/u.test(trimmed) && !/^(?:\[… \d+ characters …\]|% Total)/.test(trimmed)) {
      return oneLine(trimmed, most);
    }
  }
  return '';
}

function clean(sentence: string): string {
  const rest = sentence.replace(OPENER, '');
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}

function quote(code: string): string {
  return `\`${code.replaceAll('`', "'")}\``;
}

function endSentence(text: string): string {
  return /[.!?…:"'`)\]}]$/.test(text) ? text : `${text}.`;
}

function bound(text: string, most: number): string {
  return text.length <= most ? text.toWellFormed() : `${text.slice(0, most - 1).trimEnd()}…`.toWellFormed();
}
