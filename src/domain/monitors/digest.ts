/**
 * Reduces a step, which may contain megabytes of text, to its digest: a small, bounded record of what the monitors
 * need. The run actor journals digests, never steps, and the monitors read only digests, so a replay gives the same
 * scores. Pure; server threads for reported steps, and any thread that runs the monitors over steps.
 *
 * Only the beginning and the end of each text are read; the middle of a longer text is only sampled for
 * hashes.
 */

import { maskText } from '../../redaction/mask.ts';
import { collectValues, hashCall, hashFailure, hashLoosely, hashOutcome, parseInput } from './canonical.ts';
import { FLAG, StepFeatures } from './features.ts';
import {
  ADMITTING,
  CHANGED,
  CHECKING_ACTION,
  CHECKING_COMMAND,
  CLAIMING,
  CODE_SIGN,
  DENYING,
  DOCUMENT,
  DOUBTING,
  EDITING_ACTION,
  EDITING_COMMAND,
  FAILING,
  FINISHING,
  HANDING_OVER,
  HEDGING,
  IRREVERSIBLE,
  LOOKING,
  MUTATING_ACTION,
  MUTATING_COMMAND,
  NO_INPUT,
  PARTIAL,
  PENDING,
  PLACEHOLDER,
  PRESUPPOSING,
  PROGRAM,
  READING,
  RECAPPING,
  RECAPPING_ACTION,
  RUNNING_COMMAND,
  SHELL,
  SHOWING_COMMAND,
  SPEAKING,
  STATEMENT,
  VERIFYING,
  WAITING,
} from './lexicon.ts';
import { type MaskedStep, type MonitorStep, SHOWN_CHARACTERS } from './masked-step.ts';
import { cleanQuote } from './quote.ts';
import { COUNT, READ_CHARACTERS, StepTexts } from './step-texts.ts';
import { countStutter, mayHoldSentences } from './stutter.ts';
import { TRIGGER } from './triggers.ts';
import { hashText } from './words.ts';

export interface TaskContext {
  task: string;
  task_profile: string;
}

/** The digest of a step. Plain data that msgpack can encode, at most about 2 KB. Only the monitors use its content. */
export interface StepDigest {
  step_index: number;
  /** Short and without control characters, because interventions quote it. */
  action: string;
  input: string;
  thought: string;
  outcome: string;
  /** Numbers in the layout of `features.ts`. */
  features: Uint8Array;
}

/** A step whose unknown texts are '', with a flag for each that is unknown. */
interface ToldStep extends MonitorStep {
  action_input: string;
  observation: string;
  isInputUnknown: boolean;
  isResultUnknown: boolean;
}

function markUnknown(step: MonitorStep): ToldStep {
  const { step_index, action, action_input, thought, observation, is_error, tokens } = step;
  return {
    step_index,
    action,
    action_input: action_input ?? '',
    thought,
    observation: observation ?? '',
    is_error,
    tokens,
    isInputUnknown: action_input === null,
    isResultUnknown: observation === null,
  };
}

/** Maximum number of characters of a result that are examined to classify it. */
const SIGN_CHARACTERS = 600;
/**
 * Up to this length, a result with words such as "not found" says that there is nothing. In a longer result such words
 * are part of its content.
 */
const DENIAL_CHARACTERS = 700;
/** Up to this length, a result with words such as "in progress" says that something is not finished. */
const PENDING_CHARACTERS = 300;
/** An input is prose if it has at least this share of function words and this many words. */
const PROSE_SHARE = 0.2;
const PROSE_WORDS = 6;
/** A result with at least this many words contains something new. */
const SUBSTANTIAL_WORDS = 40;
/** A thought of at least this many characters is not repeated by chance. */
const THOUGHT_CHARACTERS = 40;
/** A sentence repeated this often in one text counts as stuttering. */
const STUTTER_COUNT = 8;

/**
 * Shortens a text to `characters` of its beginning and half as many of its end. A text up to half as long again stays
 * whole.
 */
function readEnds(text: string, characters: number): string {
  if (text.length <= characters * 1.5) return text;
  return `${text.slice(0, characters)}\n${text.slice(text.length - (characters >> 1))}`;
}

/**
 * Finds the line in which a result names the failure, or says that there is nothing; the first line if it does neither.
 * @param failure where FAILING matches; null: it does not match
 */
function findFailureLine(signs: string, failure: RegExpExecArray | null): string {
  const match = failure ?? DENYING.exec(signs);
  if (match === null) return signs.split('\n', 1)[0] ?? '';
  const start = signs.lastIndexOf('\n', Math.max(0, match.index)) + 1;
  const from = match[0].startsWith('\n') ? match.index + 1 : start;
  const end = signs.indexOf('\n', match.index + match[0].length);
  return signs.slice(from, end < 0 ? undefined : end);
}

/** Whether the step searched for the text that looks like a failure, such as errors in a log. */
function isAskedFor(step: ToldStep, failure: RegExpExecArray): boolean {
  const asked = step.action_input.slice(0, 300).toLowerCase();
  const word = /[a-z]{4,}/.exec(failure[0].toLowerCase())?.[0];
  if (word === undefined || !asked.includes(word)) return false;
  return SHOWING_COMMAND.test(step.action) || SHOWING_COMMAND.test(asked) || READING.test(step.action);
}

/** Three successive quoted or capitalised names, or a list of at least three items. */
export const ENUMERATION =
  /(?:['"“‘][^'"“”‘’\n]{2,60}['"”’](?: \([^)\n]{0,40}\))?(?:,? and |, ?|; ?)){2,}|(?:\b[A-Z][\w&'.-]*(?: [\w&'.-]+){0,5}(?: \([^)\n]{0,40}\))?, ){2,}/;

/**
 * Whether a sentence in the agent's own words makes a claim without hedging. A text that admits a failure makes no
 * claim.
 */
function claims(claim: RegExp, hedge: RegExp, text: string): boolean {
  if (!claim.test(text) || ADMITTING.test(text)) return false;
  let start = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : 10;
    // The end of a sentence: a line end, the end of the text, or `.`, `!` or `?` followed by white space or the end of
    // the text.
    const next = text.charCodeAt(i + 1);
    const ends = code === 10 || ((code === 46 || code === 33 || code === 63) && !(next > 32));
    if (!ends) continue;
    const sentence = text.slice(start, i + 1);
    start = i + 1;
    if (sentence.length > 8 && claim.test(sentence) && !hedge.test(sentence)) return true;
  }
  return false;
}

/** Longest name that is cached, and the most names cached. */
const ACTION_CHARACTERS = 64;
const ACTIONS_MAX = 512;
/** Set by `flagAction`: the tool takes a command. Outside the bits of FLAG. */
const COMMANDS = 1 << 30;
const actionFlags = new Map<string, number>();

/** Classifies a tool only by its name. Cached, because a run calls few different tools. */
function flagAction(name: string): number {
  const known = actionFlags.get(name);
  if (known !== undefined) return known;
  // Separates the words of names such as `readFile` and `read_file`.
  const spoken = `${name.replace(/([a-z])([A-Z])/g, '$1 $2').replace(/[_.-]/g, ' ')} `;
  const trimmed = name.trim();
  let flags = 0;
  if (SHELL.test(spoken)) flags |= COMMANDS;
  if (MUTATING_ACTION.test(spoken)) flags |= FLAG.mutates;
  if (IRREVERSIBLE.test(spoken)) flags |= FLAG.irreversible;
  if (CHECKING_ACTION.test(spoken)) flags |= FLAG.checks;
  if (EDITING_ACTION.test(spoken)) flags |= FLAG.edits;
  if (SPEAKING.test(trimmed)) flags |= FLAG.speaks;
  if (READING.test(spoken)) flags |= FLAG.reads;
  if (FINISHING.test(trimmed)) flags |= FLAG.final;
  if (WAITING.test(spoken)) flags |= FLAG.waits;
  if (RECAPPING_ACTION.test(trimmed)) flags |= FLAG.recaps;
  // A lookup changes nothing, although an action such as "get exchange rate" contains the word "exchange".
  if (LOOKING.test(spoken)) flags &= ~(FLAG.mutates | FLAG.irreversible | FLAG.edits);
  if (name.length <= ACTION_CHARACTERS) {
    if (actionFlags.size >= ACTIONS_MAX) actionFlags.clear();
    actionFlags.set(name, flags);
  }
  return flags;
}

/** Classifies the step by its words. */
function flagStep(
  step: ToldStep,
  input: string,
  thought: string,
  signs: string,
  failed: boolean,
  denies: boolean,
  parsed: unknown,
): number {
  const { counts } = texts;
  const inOwn = counts[COUNT.own_triggers]!;
  const inInput = counts[COUNT.input_triggers]!;
  const inSigns = counts[COUNT.sign_triggers]!;
  const own = `${thought}\n${input.slice(0, READ_CHARACTERS)}`;
  let named = flagAction(step.action.slice(0, 200));
  if (HANDING_OVER.test(step.action) && NO_INPUT.test(step.action_input))
    named &= ~(FLAG.mutates | FLAG.irreversible | FLAG.edits);
  // The beginning of a command shows what it does. The words of a query are not a command.
  const command = step.action_input.slice(0, 300);
  const commands = (named & COMMANDS) !== 0;
  let flags =
    named & (FLAG.mutates | FLAG.checks | FLAG.speaks | FLAG.reads | FLAG.final | FLAG.waits | FLAG.recaps);
  if (failed) flags |= FLAG.failed;
  if (denies) flags |= FLAG.denies;
  if (
    (failed || denies) &&
    ((inInput | inSigns) & TRIGGER.placeholder) !== 0 &&
    PLACEHOLDER.test(`${input.slice(0, READ_CHARACTERS)}\n${signs}`)
  )
    flags |= FLAG.invents;
  if (commands && MUTATING_COMMAND.test(command)) flags |= FLAG.mutates;
  if ((flags & FLAG.mutates) !== 0) {
    if (!failed && /^\s*[{[]/.test(signs)) flags |= FLAG.shows_state;
    if ((named & FLAG.irreversible) !== 0 || (commands && IRREVERSIBLE.test(command)))
      flags |= FLAG.irreversible;
  }
  if (commands && CHECKING_COMMAND.test(command)) flags |= FLAG.checks;
  if (commands && RUNNING_COMMAND.test(input.slice(0, 300))) flags |= FLAG.runs;
  const edits = (named & FLAG.edits) !== 0 || (commands && EDITING_COMMAND.test(command));
  if (edits && (!DOCUMENT.test(command) || PROGRAM.test(command))) flags |= FLAG.edits;
  if (step.isInputUnknown) flags |= FLAG.input_unknown;
  if (step.isResultUnknown) flags |= FLAG.result_unknown;
  else if (step.observation.trim() === '') flags |= FLAG.silent;
  if (/^\W*(?:sleep|wait|watch)\b/i.test(command)) flags |= FLAG.waits;
  const mayPend = !failed && !denies && step.observation.length <= PENDING_CHARACTERS;
  if (mayPend && (inSigns & TRIGGER.pending) !== 0 && PENDING.test(signs)) flags |= FLAG.pending;
  if ((inSigns & TRIGGER.partial) !== 0 && PARTIAL.test(signs)) flags |= FLAG.partial;
  if ((inOwn & TRIGGER.claiming) !== 0 && claims(CLAIMING, HEDGING, own)) flags |= FLAG.claims_success;
  // The text is examined only if the step might make a claim, because this function runs at every step.
  const tells =
    (flags & (FLAG.speaks | FLAG.final)) !== 0 || (step.action === '' && step.action_input === '');
  if (tells && claims(CHANGED, DOUBTING, own)) flags |= FLAG.claims_change;
  if ((inOwn & TRIGGER.presupposing) !== 0 && PRESUPPOSING.test(own)) flags |= FLAG.presupposes;
  if ((inInput & TRIGGER.verifying) !== 0 && VERIFYING.test(input.slice(0, READ_CHARACTERS)))
    flags |= FLAG.asks_check;
  if ((inInput & TRIGGER.enumerating) !== 0 && ENUMERATION.test(input.slice(0, READ_CHARACTERS)))
    flags |= FLAG.enumerates;
  if ((inOwn & TRIGGER.recapping) !== 0 && RECAPPING.test(own)) flags |= FLAG.recaps;
  // Equal values in several places of a JSON input are data, not a repeated sentence.
  const said = parsed === undefined ? own : thought;
  if (mayHoldSentences(said, STUTTER_COUNT) && countStutter(said) >= STUTTER_COUNT) flags |= FLAG.stutters;
  if (step.action !== '' || step.action_input !== '') flags |= FLAG.acts;
  if (thought.length >= THOUGHT_CHARACTERS) flags |= FLAG.thinks;
  return flags;
}

/** Buffer in which the current step's words are counted; reused for every step. */
const features = new StepFeatures();
const texts = new StepTexts();

/** Whether an input that reads like a sentence is a command or a statement. */
function isCode(action: string, input: string): boolean {
  const start = input.slice(0, 500);
  return STATEMENT.test(start) || (CODE_SIGN.test(start) && SHELL.test(`${action.slice(0, 200)} `));
}

/**
 * Hashes a step's call, or its thought if there is no call.
 * @returns 0 if the input is unknown, or without call and thought
 */
function hashStepCall(step: ToldStep, acts: boolean, parsed: unknown): number {
  if (step.isInputUnknown) return 0;
  if (acts) return hashCall(step.action, step.action_input, parsed);
  return step.thought.trim() === '' ? 0 : hashLoosely(step.thought);
}

/**
 * Hashes a step's result. Uses the measured hash if the whole observation was measured.
 * @param read the part of the observation that was measured
 */
function hashResult({ observation }: ToldStep, read: string): number {
  const measured = read.length === observation.length ? texts.counts[COUNT.outcome]! : 0;
  return measured === 0 ? hashOutcome(observation) : measured;
}

/** Makes the digest of a step. It depends only on the step, not on earlier steps. */
export function digestStep({ sent, shown, is_plain }: MaskedStep): StepDigest {
  const step = markUnknown(sent);
  const parsed = parseInput(step.action_input);
  const acts = step.action !== '' || step.action_input !== '' || step.isInputUnknown;
  // In a step without a call, the text counts as the action.
  const input = !acts
    ? readEnds(step.thought, READ_CHARACTERS)
    : parsed === undefined
      ? readEnds(step.action_input, READ_CHARACTERS)
      : collectValues(parsed, READ_CHARACTERS * 1.5);
  const thought = readEnds(step.thought, READ_CHARACTERS);
  const observation = readEnds(step.observation, READ_CHARACTERS);
  const signs = readEnds(step.observation, SIGN_CHARACTERS);
  texts.measure(input, thought, observation, features);
  const { counts } = texts;
  const inSigns = counts[COUNT.sign_triggers]!;
  const failure = (inSigns & TRIGGER.failing) === 0 ? null : FAILING.exec(signs);
  const failed = step.is_error || (failure !== null && !isAskedFor(step, failure));
  const denies =
    (inSigns & TRIGGER.denying) !== 0 &&
    step.observation.length <= DENIAL_CHARACTERS &&
    step.observation.trim().length > 0 &&
    DENYING.test(signs);

  let flags = flagStep(step, input, thought, signs, failed, denies, parsed);
  const length = counts[COUNT.input_words]!;
  const isProse = length >= PROSE_WORDS && counts[COUNT.function_words]! / length >= PROSE_SHARE;
  if (isProse && !isCode(step.action, input)) flags |= FLAG.prose;
  if (counts[COUNT.observation_words]! >= SUBSTANTIAL_WORDS) flags |= FLAG.substantial;
  if (counts[COUNT.negations]! % 2 === 1) flags |= FLAG.negates;

  const failureLine = failed || denies ? findFailureLine(signs, failure) : '';
  const { numbers, scalars } = features;
  numbers[0] = hashStepCall(step, acts, parsed);
  numbers[1] = step.isResultUnknown ? 0 : hashResult(step, observation);
  numbers[2] = (failed || denies) && !step.isResultUnknown ? hashFailure(failureLine) : 0;
  const thoughtHash = step.thought.length <= READ_CHARACTERS ? counts[COUNT.thought]! : 0;
  numbers[3] =
    thoughtHash === 0
      ? hashLoosely(step.thought.trim().toLowerCase().slice(0, READ_CHARACTERS))
      : thoughtHash;
  numbers[4] = step.step_index;
  numbers[8] = Math.floor(step.step_index / 2 ** 32);
  numbers[5] = flags;
  numbers[6] = counts[COUNT.kept_words]! | (counts[COUNT.head]! << 8);
  numbers[7] = hashText(step.action.slice(0, 200).trim(), 9);
  scalars[0] = Math.min(counts[COUNT.retries]!, 0xffff);
  scalars[1] = Math.min(length, 0xffff);
  scalars[2] = Math.min(counts[COUNT.observation_words]!, 0xffff);
  scalars[3] = Math.min(counts[COUNT.subject]!, 0xffff);
  const isLinePlain = is_plain && step.observation.length <= SHOWN_CHARACTERS;
  const outcome =
    failureLine === '' ? (shown.observation ?? '') : isLinePlain ? failureLine : maskText(failureLine);
  return {
    step_index: step.step_index,
    action: cleanQuote(shown.action, 48),
    input: cleanQuote(shown.action_input ?? '', 140),
    thought: cleanQuote(shown.thought, 120),
    outcome: cleanQuote(outcome, 120),
    features: features.copy(),
  };
}
