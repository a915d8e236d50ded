/**
 * Describes a stretch of a run as a pattern: the situation, the attempts that failed, and the solution. The text uses
 * the run's own words, with each value replaced by its source (run-values.ts), inside fixed sentences. Pure; actor
 * threads and the command line.
 */

import { PATTERN_BOUNDS } from '../pattern.ts';
import type { Trace } from '../trace.ts';
import type { TraceStep } from '../trace-step.ts';
import { commandLine, ERROR_CHARACTERS, isShell, type StepVerdict } from './failures.ts';
import { saysSomething } from './rule-text.ts';
import type { RunValues } from './run-values.ts';
import type { Stretch } from './stretches.ts';
import { boundText, oneLine, renderJson, splitSentences } from './text.ts';

interface PatternTexts {
  situation: string;
  dead_ends: string;
  unlock: string;
}

/** The texts, and a number from 0 to 4 that says how well the unlock is explained; 0: it only repeats what was done. */
interface Wording extends PatternTexts {
  insight: number;
}

const DEAD_ENDS = 5;
/** Maximum number of attempts named before a failed check. */
const ATTEMPTS = 2;
/** Maximum number of steps between the first failure and the attempt that it checks. */
const FIRST_ATTEMPT_REACH = 4;
/** Tools whose changes are checked later. */
const EDIT =
  /^(?:(?:multi_?|str_replace_|file_)?edit|apply|write|patch|replace|insert|update|create|modify|set)/i;
/**
 * Maximum characters of the goal and of the error in a situation. The task must remain the larger part, because
 * searches match it.
 */
const GOAL_CHARACTERS = 140;
const CALL_CHARACTERS = 240;
/** Two inputs with more differences than this count as different calls. */
const CHANGES = 3;
const NAMELESS = 'a step without a name';
const CAUSAL =
  /\b(?:because|since|need(?:s|ed)? to|should|must|instead|missing|requires?|correct(?:ly)?|proper(?:ly)?|actually|turns? out|so (?:I|we|let)|fix|reason|therefore|rather than|not .{1,40} but|by (?:using|adding|changing|setting|removing))\b/i;
/** Words without content at the start of an agent's message. */
const OPENER = /^(?:okay|ok|alright|great|perfect|good|now|sure|of course|certainly|hmm|well)[,.!:]\s+/i;
/** Greetings and frames around a task. */
const FRAME =
  /^(?:hi|hello|hey|good (?:morning|afternoon|evening)|dear|thanks|thank you|please help|we're currently solving|we are currently solving|here's the|here is the|you are |your task|instructions?:?$|issue:?$|task:?$|description:?$|initial plan|question:?$)/i;

/** Errors that occur without a mistake of the caller. */
const TRANSIENT =
  /\b(?:timed? ?out|timeout|temporar|try again|rate limit|too many requests|429|50[0234]|connection (?:reset|refused|closed)|ECONNRESET|unavailable|overloaded|busy|locked|deadlock)\b/i;

/** Unlock of a situation that only failed runs have met: their last steps are not a solution. */
export const NO_UNLOCK = 'Not known yet: only runs that failed have met this.';

/** A stretch with a recovery. */
type OvercomeStretch = Stretch & { recovery: number };

/**
 * Describes a stretch.
 * @returns null if the call worked when it was repeated unchanged with nothing done in between, unless the error was a
 *   temporary one
 */
export function wordStretch(
  trace: Trace,
  stretch: Stretch,
  verdicts: readonly StepVerdict[],
  values: RunValues,
): Wording | null {
  const unlock =
    stretch.recovery === null
      ? { text: NO_UNLOCK, insight: 0 }
      : wordUnlock(trace.steps, { ...stretch, recovery: stretch.recovery }, verdicts, values);
  if (unlock === null) return null;
  return {
    situation: wordSituation(trace, stretch, verdicts, values),
    dead_ends: wordDeadEnds(trace.steps, stretch, verdicts, values),
    unlock: unlock.text,
    insight: unlock.insight,
  };
}

// ---------------------------------------------------------------------------------------------------------------
// Situation

/**
 * Shortens the task to at most four sentences, without values of the run. Greetings and frames are left out unless the
 * task has nothing else.
 */
export function summarizeTask(task: string, values: Pick<RunValues, 'text'>): string {
  const sentences = splitSentences(task.replace(/```[\s\S]{0,4000}?(?:```|$)/g, '\n'), 30);
  const told = sentences.filter((sentence) => !FRAME.test(sentence) && sentence.length > 2);
  const general = (told.length > 0 ? told : sentences).map((sentence) => ({
    sentence: values.text(sentence),
    is_own: values.text(sentence) === sentence,
  }));
  // Drop sentences that consist of placeholders, such as "I am a name and my id is an id".
  const telling = general.filter(({ sentence, is_own }) => is_own || saysSomething(sentence));
  const kept: string[] = [];
  let length = 0;
  for (const { sentence } of telling.length > 0 ? telling : general) {
    if (kept.length > 0 && length + sentence.length > 280) break;
    kept.push(endSentence(oneLine(sentence, 280)));
    length += sentence.length;
    if (kept.length >= 4) break;
  }
  return kept.join(' ');
}

function wordSituation(
  trace: Trace,
  stretch: Stretch,
  verdicts: readonly StepVerdict[],
  values: RunValues,
): string {
  const first = stretch.failures[0]!;
  const step = trace.steps[first]!;
  const task = summarizeTask(trace.task, values) || summarizeTask(trace.steps[0]?.thought ?? '', values);
  const goal = findGoal(trace.steps, first, task, values);
  const { error } = verdicts[first]!;
  const stuck =
    stretch.way === 'loop'
      ? `Stuck repeating ${quote(nameAction(step, values))} ${stretch.failures.length} times without getting further.`
      : error === ''
        ? `Stuck at ${quote(nameAction(step, values))}, which failed.`
        : `Stuck at ${quote(nameAction(step, values))}, which failed: ${endSentence(oneLine(values.text(error), GOAL_CHARACTERS))}`;
  return boundText(
    [task, goal === '' ? '' : `Goal then: ${goal}`, stuck].filter(Boolean).join(' '),
    PATTERN_BOUNDS.situation,
  );
}

/**
 * Finds the goal that the agent had at a failed step: in the step's thought; if the thought says nothing, in the user's
 * last message that adds to the task, within the eight steps before. '' if there is no such message, or if the task
 * contains the thought.
 */
function findGoal(steps: readonly TraceStep[], at: number, task: string, values: RunValues): string {
  const own = splitSentences(steps[at]!.thought, 6)
    .map((sentence) => ({ sentence: clean(sentence), general: values.text(clean(sentence)) }))
    .filter(({ sentence, general }) => general !== '' && (general === sentence || saysSomething(general)))
    .map(({ general }) => general);
  const sentence = own.find((candidate) => candidate.length > 20) ?? own[0];
  if (sentence !== undefined)
    return task.includes(sentence) ? '' : endSentence(oneLine(sentence, GOAL_CHARACTERS));
  for (let before = at - 1; before >= 0 && before >= at - 8; before--) {
    const step = steps[before]!;
    if (!/^(?:respond|response|reply|message|send_message|ask)/i.test(step.action)) continue;
    const words = summarizeTask(step.observation, values);
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
  values: RunValues,
): string {
  const counted = new Map<string, number>();
  for (const at of stretch.failures) {
    const { error } = verdicts[at]!;
    const answer =
      oneLine(values.text(error), ERROR_CHARACTERS) || firstLine(steps[at]!.observation, 120, values);
    const attempts = findAttempts(steps, stretch, verdicts, at).map((tried) =>
      quote(describeCall(steps[tried]!, values)),
    );
    const call = [
      ...attempts,
      `${attempts.length === 0 ? '' : 'then '}${quote(describeCall(steps[at]!, values))}`,
    ];
    const line = `${call.join(', ')}${answer === '' ? ' failed' : ` → ${answer}`}`;
    counted.set(line, (counted.get(line) ?? 0) + 1);
  }
  const lines = [...counted].map(([line, times]) => `- ${line}${times > 1 ? ` (${times} times)` : ''}`);
  // The first lines show how the failure began, the last ones the attempts just before the solution.
  const kept = lines.length <= DEAD_ENDS ? lines : [...lines.slice(0, 2), ...lines.slice(-(DEAD_ENDS - 2))];
  if (lines.length > DEAD_ENDS) kept.splice(2, 0, `- (${lines.length - DEAD_ENDS} more like these)`);
  return boundText(kept.join('\n'), PATTERN_BOUNDS.dead_ends);
}

/**
 * Finds the attempts before a failed check. A check is a call that is repeated unchanged, such as a test run: its
 * failure only shows that the changes before it did not help.
 * @returns at most the last two steps that changed something since the previous failure. Before the first failure, at
 *   most one edit. None if the failed call is not a check, and so was the attempt itself
 */
function findAttempts(
  steps: readonly TraceStep[],
  { failures, recovery, way }: Stretch,
  verdicts: readonly StepVerdict[],
  at: number,
): number[] {
  const isSameCall = (other: number): boolean =>
    steps[other]!.action === steps[at]!.action && steps[other]!.action_input === steps[at]!.action_input;
  const isCheck =
    (recovery !== null && isSameCall(recovery)) ||
    failures.some((other) => other !== at && isSameCall(other));
  if (way === 'loop' || !isCheck) return [];
  const before = failures[failures.indexOf(at) - 1];
  const found: number[] = [];
  for (let tried = at - 1; tried > (before ?? Math.max(-1, at - FIRST_ATTEMPT_REACH)); tried--) {
    const { failed, is_talk, is_look } = verdicts[tried]!;
    if (failed || is_talk || is_look || isSameCall(tried)) continue;
    // Before the first failure, all earlier work precedes the check. Only an edit right before the check is an
    // attempt.
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
  stretch: OvercomeStretch,
  verdicts: readonly StepVerdict[],
  values: RunValues,
): { text: string; insight: number } | null {
  const { recovery, failures } = stretch;
  const lastTry = findLastTry(stretch, verdicts);
  const worked = steps[recovery]!;
  const between: number[] = [];
  for (let at = failures.at(-1)! + 1; at < recovery; at++) {
    if (!verdicts[at]!.is_talk && !verdicts[at]!.failed) between.push(at);
  }
  const told = new Set(failures.map((at) => verdicts[at]!.error));
  const why = findReason(steps, failures.at(-1)! + 1, recovery, verdicts, told, values);
  const failed = steps[lastTry]!;
  const isSame = failed.action === worked.action && failed.action_input === worked.action_input;
  const changes = isSame ? [] : compareInputs(failed, worked, values);
  if (isSame && between.length === 0) {
    // An unchanged repetition worked. That is a lesson only for a transient error.
    if (stretch.way === 'loop' || !TRANSIENT.test(verdicts[lastTry]!.error)) return null;
    const text = `The failure was temporary: ${quote(describeCall(worked, values))} worked when it was tried again unchanged.`;
    return { text: finish(text, why, worked, values), insight: 1 };
  }
  const parts: string[] = [];
  if (between.length > 0 && stretch.way !== 'loop') {
    const shown = between.slice(-3).map((at) => quote(describeCall(steps[at]!, values)));
    parts.push(`First ${shown.join(', then ')}.`);
  }
  if (isSame) parts.push(`Then ${quote(describeCall(worked, values))} again, which now worked.`);
  else if (changes.length > 0)
    parts.push(`What worked: ${quote(nameAction(worked, values))} with ${changes.join(' and ')}.`);
  else parts.push(`What worked: ${quote(describeCall(worked, values))}.`);
  const isOther = stretch.way === 'detour';
  const insight =
    (why === '' ? 0 : 2) + (changes.length > 0 || isOther ? 1 : 0) + (between.length > 0 ? 1 : 0);
  return { text: finish(parts.join(' '), why, worked, values), insight };
}

/** Joins the reason, the action and the result. */
function finish(done: string, why: string, worked: TraceStep, values: RunValues): string {
  const result = firstLine(worked.observation, 140, values);
  const parts = [why, done, result === '' ? '' : `Result: ${endSentence(result)}`];
  return boundText(parts.filter(Boolean).join(' '), PATTERN_BOUNDS.unlock);
}

/** Finds the last failure of the call that finally worked, or else the last failure. */
function findLastTry({ failures, recovery }: OvercomeStretch, verdicts: readonly StepVerdict[]): number {
  const { key } = verdicts[recovery]!;
  return failures.findLast((at) => verdicts[at]!.key === key) ?? failures.at(-1)!;
}

/**
 * Finds the agent's own reason for what worked: a sentence from its thoughts in the steps from `from` to `to` (at most
 * the last seven), and the sentence after it if that is short and gives a cause; '' without one.
 * @param told sentences already used in the dead ends
 */
function findReason(
  steps: readonly TraceStep[],
  from: number,
  to: number,
  verdicts: readonly StepVerdict[],
  told: ReadonlySet<string>,
  values: RunValues,
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
      .filter((sentence) => sentence.length >= 20 && !told.has(oneLine(sentence, ERROR_CHARACTERS)))
      .map((sentence) => ({ sentence, general: values.text(sentence) }))
      .filter(({ sentence, general }) => general === sentence || saysSomething(general))
      .map(({ general }) => general);
    for (const [index, sentence] of sentences.entries()) {
      // Score: a causal sentence counts most, then a late step and an early position in the thought.
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

/**
 * Reads the thought from the input of a thinking tool: the field `thought`, `text` or `content`, '' without one; the
 * whole input if it is not a JSON object.
 */
function readThought(input: string): string {
  const fields = readFields(input);
  if (fields === null) return input;
  const text = fields.thought ?? fields.text ?? fields.content;
  return typeof text === 'string' ? text : '';
}

/**
 * Lists how the input that worked differs from the failed one: by field for JSON, otherwise by line. Empty if there are
 * more than three differences, if the tools differ, or if a changed value is too long to show.
 */
function compareInputs(failed: TraceStep, worked: TraceStep, values: RunValues): string[] {
  if (failed.action !== worked.action) return [];
  const [before, after] = [readFields(failed.action_input), readFields(worked.action_input)];
  if (before === null || after === null)
    return compareLines(failed.action_input, worked.action_input, values);
  const [was, is] = [listLeaves(before), listLeaves(after)];
  const changes: string[] = [];
  for (const path of new Set([...was.keys(), ...is.keys()])) {
    const [old, now] = [was.get(path), is.get(path)];
    if (old?.text === now?.text) continue;
    // Long values usually differ only in a part, which the complete call shows better.
    if ((old?.text ?? '').length > 120 || (now?.text ?? '').length > 120) return [];
    const name = quote(values.text(path));
    if (old === undefined) changes.push(`${name} = ${values.argument(now!.value)} added`);
    else if (now === undefined) changes.push(`${name} left out (was ${values.argument(old.value)})`);
    else changes.push(`${name} = ${compareValues(old.value, now.value, values)}`);
    if (changes.length > CHANGES) return [];
  }
  return changes;
}

/** Describes a changed value: by the sources of both values, or by the characters added or removed at an end. */
function compareValues(old: unknown, now: unknown, values: RunValues): string {
  const [was, is] = [String(old), String(now)];
  const said = values.argument(now);
  if (typeof old !== typeof now && was === is) return `${said} as a ${typeof now} instead of a ${typeof old}`;
  if (typeof old === 'string' && typeof now === 'string') {
    const added = is.length > was.length ? is.replace(was, '\u0000') : '';
    const [, before = '', after = ''] = /^(\D{0,3})\u0000(\D{0,3})$/.exec(added) ?? [];
    if (was.length > 2 && before + after !== '')
      return `${said} with ${quote(before || after)} ${before === '' ? 'behind' : 'in front of'} it`;
    const dropped = was.length > is.length ? was.replace(is, '\u0000') : '';
    const [, front = '', back = ''] = /^(\D{0,3})\u0000(\D{0,3})$/.exec(dropped) ?? [];
    if (is.length > 2 && front + back !== '') return `${said} without ${quote(front || back)}`;
    if (was.toLowerCase() === is.toLowerCase()) return `${said} in other letters (upper or lower case)`;
  }
  const before = values.argument(old);
  return said === before ? `another value: ${said}` : `${said} instead of ${before}`;
}

/** Compares line by line, including white space, so that wrong indentation shows. */
function compareLines(before: string, after: string, values: RunValues): string[] {
  const [was, is] = [before.split('\n'), after.split('\n')];
  // A single line is shown better by the complete call, unless only white space differs.
  const isOther = was.length === 1 && oneLine(before, 500) !== oneLine(after, 500);
  if (was.length !== is.length || isOther) return [];
  const changes: string[] = [];
  for (const [index, line] of is.entries()) {
    const old = was[index]!;
    if (line === old) continue;
    if (line.length > 160 || old.length > 160) return [];
    // Keep the white space, because it may be the only difference.
    const [, margin = '', said = ''] = /^(\s*)(.*)$/.exec(line)!;
    const [, oldMargin = '', oldSaid = ''] = /^(\s*)(.*)$/.exec(old)!;
    changes.push(
      `${quote(margin + values.text(said))} instead of ${quote(oldMargin + values.text(oldSaid))}`,
    );
    if (changes.length > CHANGES) return [];
  }
  return changes;
}

/** Lists the values of a JSON object by path, at most 100. An object or array below six levels is one value. */
function listLeaves(fields: Record<string, unknown>): Map<string, { text: string; value: unknown }> {
  const leaves = new Map<string, { text: string; value: unknown }>();
  const visit = (value: unknown, path: string, depth: number): void => {
    if (leaves.size >= 100) return;
    if (typeof value !== 'object' || value === null || depth >= 6) {
      leaves.set(path, { text: oneLine(renderJson(value, 200), 200), value });
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

/**
 * Reads the fields of a JSON object; null for other inputs and for deeply nested ones. Inputs are bounded, so the cost
 * is too.
 */
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

/** Writes the short form of a call: the tool and a short input. */
function nameAction(step: TraceStep, values: RunValues): string {
  if (isShell(step.action)) return sayCommand(step, 80, values) || oneLine(values.text(step.action), 80);
  const input = step.action_input.trim();
  const isShort = input.length <= 60 && !input.includes('\n') && !/^[[{]/.test(input);
  return oneLine(values.text(isShort ? `${step.action} ${input}` : step.action), 120) || NAMELESS;
}

/** Describes a call on one line, with its input. */
function describeCall(step: TraceStep, values: RunValues): string {
  if (isShell(step.action)) return sayCommand(step, CALL_CHARACTERS, values);
  const tool = oneLine(values.text(step.action), 60);
  const fields = readFields(step.action_input);
  if (fields !== null) {
    const shown = Object.entries(fields).map(
      ([name, value]) => `${values.text(name)}=${showValue(value, values)}`,
    );
    return oneLine(`${tool}(${shown.join(', ')})`, CALL_CHARACTERS + 60);
  }
  const input = step.action_input.slice(0, 4 * CALL_CHARACTERS).replace(/\nend_of_edit\s*$/, '');
  return `${tool} ${oneLine(values.text(input), CALL_CHARACTERS)}`.trim() || NAMELESS;
}

function sayCommand(step: TraceStep, most: number, values: RunValues): string {
  return oneLine(values.text(commandLine(step.action_input).slice(0, 4 * most)), most);
}

/** Shortens a value so that the following fields remain visible. */
function showValue(value: unknown, values: RunValues): string {
  const text = values.argument(value);
  if (text.length <= 100) return text;
  if (Array.isArray(value)) return `[${value.length === 1 ? 'one item' : 'several items'}]`;
  return typeof value === 'string' ? JSON.stringify(oneLine(values.text(value.slice(0, 400)), 92)) : '{…}';
}

/**
 * Finds the first informative line: of JSON, its message or status; '' for the content of a file, for markup, and
 * without such a line.
 */
function firstLine(text: string, most: number, values: RunValues): string {
  const start = text.slice(0, 2_000);
  if (/^\s*[[{]/.test(start) && !/^\s*\[File:/.test(start)) {
    const said = /"(?:message|status|result|summary)"\s*:\s*"([^"]{3,120})"/.exec(start);
    return said === null ? '' : oneLine(values.text(said[1]!), most);
  }
  if (/^\s*(?:\[File:|\d{1,6}[:\t|→]|<)/.test(start)) return '';
  for (const line of start.split('\n')) {
    const trimmed = line.trim();
    if (/[\p{L}\p{N}]{2}/u.test(trimmed) && !/^(?:\[… \d+ characters …\]|% Total)/.test(trimmed)) {
      return oneLine(values.text(trimmed), most);
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
