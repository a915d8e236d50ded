/**
 * Decides whether a step failed, and finds the words of the failure: from its own flag, from the tool's answer, or from
 * the agent's next thought. In doubt, the step did not fail: a file that contains the word "error" is not a failure.
 * Pure; actor threads and the command line.
 */

import type { TraceStep } from '../trace-step.ts';
import { oneLine, splitSentences } from './text.ts';

/** Longest error that is quoted. */
export const ERROR_CHARACTERS = 220;

/** Steps that talk or think. They neither fail nor repair anything. */
const TALK =
  /^(?:respond|response|reply|answer|message|say|think|thought|finish|final_?answer|final|submit|done|complete|ask|ask_?user|todo_?write|update_?plan|plan|send_message(?:_to_user)?|transfer_to_human_agents|no_?op|none)$/i;
/** Steps that only read. Their observation is content, not a result. */
const LOOK =
  /^(?:(?:get|list|read|view|open|show|find|search|fetch|load|look_?up|goto|scroll|query|inspect|describe|browse|check|retrieve)(?:[_A-Z].*|_?file|_?dir)?|cat|ls|head|tail|less|grep|rg|glob|tree|pwd|find|sed -n|stat|wc|webfetch|websearch|lookup|str_replace_editor view)$/i;
/** Names of a harness's tool for commands. The command distinguishes these steps. */
const SHELL =
  /^(?:bash|shell|sh|zsh|terminal|cmd|powershell|exec|execute|run|run_?command|run_?shell_?command|execute_?bash|execute_?command|run_?in_?terminal|shell_?command|computer_?terminal)$/i;
/** Commands whose second word is part of the action. */
const TWO_WORDS =
  /^(?:npm|npx|yarn|pnpm|bun|git|docker|cargo|go|pip3?|kubectl|poetry|uv|make|dotnet|gh|aws|gcloud|terraform|helm|apt|apt-get|brew|systemctl|rails|mix|gradle|mvn|\.\/gradlew)$/;

/** Lines that appear only in failures. */
const ERROR_LINES: readonly RegExp[] = [
  /^(?:[\w$]+\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Fault|Failure)\b(?:\s*[:([]|$)/,
  /^[^\w{"']{0,6}(?:\w+\s)?(?:error|fatal|panic|fatal error|unhandled|uncaught|exception)\b\W{0,4}[:\]!(—-]/i,
  /^Traceback \(most recent call last\)/,
  /\bcommand not found\b|\bnot recognized as an internal or external command\b/i,
  /\b(?:No such file or directory|Permission denied|Operation not permitted|Connection refused|ECONNREFUSED|ENOENT|EACCES|ETIMEDOUT|ENOTFOUND|EADDRINUSE)\b/,
  /\b(?:exit(?:ed)?(?: with)?(?: exit)? ?(?:code|status)|return(?:ed|s)? ?code|non-zero exit status)\W{0,3}[1-9]\d{0,2}\b/i,
  /\breturned non-zero exit status\b/i,
  /^(?:npm ERR!|error Command failed|make(?:\[\d+\])?: \*\*\*|ERROR:|E\s{3})/,
  /\b[1-9]\d{0,5} (?:tests? |specs? |examples?, )?(?:failed|failing|failures?|errors?)\b/i,
  /^(?:FAIL|FAILED|✗|✘|×)\b/,
  /\bHTTP(?:\/\d(?:\.\d)?)?(?: error| status)?(?: code)?:? ?[45]\d\d\b|\b(?:status|status code|statusCode)\W{1,3}[45]\d\d\b/i,
  /\b(?:400 Bad Request|401 Unauthorized|403 Forbidden|404 Not Found|409 Conflict|422 Unprocessable|429 Too Many|500 Internal|502 Bad Gateway|503 Service|504 Gateway|Error 40[0-9])\b/i,
  /\b(?:timed out|deadline exceeded|rate limit(?:ed| exceeded)|quota exceeded|segmentation fault|out of memory|core dumped)\b/i,
  /^(?:could not|cannot|can't|unable to|failed to|invalid|unknown|unrecognized|unsupported|no (?:matches?|results?|such)|not found|access denied|unauthorized|forbidden|missing)\b/i,
  /^(?:your proposed edit has introduced|string to replace (?:was )?not found|no replacement was performed|old_string)/i,
];
/** A JSON answer that reports a failure. */
const ERROR_JSON =
  /^\s*\{\s*(?:"[\w-]{1,40}"\s*:\s*(?:"[^"]{0,80}"|\d{1,20}|true|false|null)\s*,\s*){0,3}"(?:error|errors|error_message|exception)"\s*:(?!\s*(?:null|""|\[\s*\]|false|0|\{\s*\}))|^\s*\{[^{}]{0,200}"(?:success|ok)"\s*:\s*false|^\s*\{[^{}]{0,200}"status"\s*:\s*"(?:error|failed|failure)"/i;

/** Words with which an agent says that a step did not have the intended effect. */
const ADMISSION =
  /\b(?:(?:did ?n[o']t|does ?n[o']t|has ?n[o']t|not) (?:seem to )?(?:work|help|succeed|change|apply|return (?:any|the))|(?:command|edit|call|attempt|request|search|query|test|build|install(?:ation)?|import|export|upload|download|deployment|migration|compilation|connection|login|decryption|approach|change|fix|tool|script|it) (?:has |have |still )?(?:failed|fails)\b|was (?:unsuccessful|rejected)|(?:not|n't) (?:what|as) (?:I |we )?(?:had )?(?:expected|intended)|still (?:fails|failing|broken|wrong|the same error)|(?:my|the) (?:last |previous |proposed )?(?:edit|command|query|call|input|syntax|argument) (?:did not|didn't|failed|was (?:wrong|incorrect|invalid|malformed)|had|introduced)|I (?:made|introduced) (?:an? )?(?:\w+ )?(?:error|mistake|typo)|(?:there (?:was|is)|seems that there (?:was|is)|ran into|encountered|hit|got) an? (?:\w+ )?(?:problem|error|exception|failure)|that (?:is|was|'s) (?:wrong|incorrect|not right))\b/i;
/** Words that show that a sentence which matches ADMISSION is not an admission, such as "without errors". */
const NO_ADMISSION =
  /\b(?:no|without(?: an?)?|any|fix(?:es|ed)?|resolve[sd]?) (?:\w+ )?(?:errors?|problems?|failures?|issues?)\b/i;

export interface StepVerdict {
  failed: boolean;
  /** The words of the failure on one line; '' without a failure or without words. */
  error: string;
  /** Whether the step only talks or thinks: it neither fails nor repairs. */
  is_talk: boolean;
  /** Whether the step only looks. */
  is_look: boolean;
  /** Steps with the same key try the same thing: the tool, and for commands the program. */
  key: string;
}

/**
 * Decides whether a step failed.
 * @param next the following step, whose thought may say that this step failed; undefined for the last step
 */
export function judgeStep(step: TraceStep, next: TraceStep | undefined): StepVerdict {
  const action = step.action.trim();
  const command = SHELL.test(action) ? readCommand(step.action_input) : '';
  const name = command === '' ? action : command;
  const is_talk = command === '' && TALK.test(action);
  const is_look = !is_talk && LOOK.test(name);
  const key = command === '' ? action.toLowerCase() : `$ ${command}`;
  if (step.is_error) {
    const error =
      findErrorLine(step.observation) ||
      oneLine(step.observation.slice(0, 2_000).replace(/```\w*/g, ''), ERROR_CHARACTERS);
    return { failed: true, error, is_talk, is_look, key };
  }
  let error = is_talk ? '' : findReportedError(step.observation, is_look);
  if (error === '' && !is_talk && next !== undefined && next.thought !== '')
    error = findAdmission(next.thought);
  return { failed: error !== '', error, is_talk, is_look, key };
}

/** Whether the tool runs commands. */
export function isShell(action: string): boolean {
  return SHELL.test(action.trim());
}

/**
 * Finds the program of a command line, with its second word if that is part of the action: `git push`. Folders, `sudo`,
 * variables and similar words before the program are skipped.
 */
export function readCommand(input: string): string {
  const line = commandLine(input)
    .slice(0, 500)
    .replace(/^\s*(?:cd\s+[^\s;&|]{1,200}\s*(?:&&|;)\s*)+/, '')
    .replace(/^(?:\s*(?:sudo|time|env|timeout\s+\d+\w?)\s+|\s*[A-Z_][A-Z0-9_]*=\S{0,200}\s+){0,4}/, '')
    .trim();
  const [head = '', second = '', third = ''] = line.split(/\s+/, 3);
  if (/^python[\d.]*$/.test(head) && second === '-m') return `${head} -m ${third}`;
  const isNamed = TWO_WORDS.test(head) && /^[a-z][\w:-]*$/i.test(second);
  return oneLine(isNamed ? `${head} ${second}` : head, 80);
}

/** Reads the command from a shell tool's input, which is JSON or the command itself. */
export function commandLine(input: string): string {
  const found =
    /^\s*\{[\s\S]{0,400}?"(?:command|cmd|script|code|input)"\s*:\s*("(?:[^"\\]|\\.){0,2000}"?)/.exec(input);
  if (found === null) return input;
  const text = found[1]!;
  try {
    return String(JSON.parse(text.endsWith('"') && text.length > 1 ? text : `${text}"`));
  } catch {
    return text.slice(1);
  }
}

/** Finds the failure that an observation reports although the step is not flagged as failed; '' without one. */
function findReportedError(observation: string, isLook: boolean): string {
  if (observation === '') return '';
  if (ERROR_JSON.test(observation.slice(0, 600)))
    return oneLine(readJsonError(observation), ERROR_CHARACTERS);
  const lines = significantLines(observation);
  // A read may return any content; only a short answer is the tool's own message.
  if (isLook && lines.length > 3) return '';
  const isListing = lines.length > 3 && /^\s*(?:\[File:|\d{1,6}[:\t|→])/m.test(observation.slice(0, 400));
  const candidates = isListing ? lines.slice(0, 1) : [...lines.slice(0, 3), ...lines.slice(-6)];
  return candidates.some(isErrorLine) ? findErrorLine(observation) : '';
}

function isErrorLine(line: string): boolean {
  return (
    line.length <= 600 &&
    !/\b0 (?:failed|failing|failures?|errors?)\b/i.test(line) &&
    ERROR_LINES.some((shape) => shape.test(line))
  );
}

/**
 * Finds the most informative line of a failure: the error in a JSON answer, otherwise the last exception with a
 * message, otherwise the first line that looks like an error; '' without one.
 */
function findErrorLine(observation: string): string {
  if (ERROR_JSON.test(observation.slice(0, 600)))
    return oneLine(readJsonError(observation), ERROR_CHARACTERS);
  const lines = significantLines(observation);
  const exceptions = lines.filter(
    (line) => /\b[A-Z]\w{0,60}(?:Error|Exception)\b\s*:?\s*\S/.test(line) && isErrorLine(stripBullet(line)),
  );
  // In a traceback, the last line has the exception.
  const exception = exceptions.at(-1);
  const line = exception ?? lines.find((candidate) => isErrorLine(stripBullet(candidate)));
  return line === undefined ? '' : oneLine(stripBullet(line), ERROR_CHARACTERS);
}

/** Removes a bullet or a linter's code, such as `- E999 `, from the beginning of a line. */
function stripBullet(line: string): string {
  return line.replace(/^\s*(?:[-*•#>]{1,3}\s+)?(?:[A-Z]\d{3,4}\s+)?/, '');
}

function readJsonError(observation: string): string {
  const text = observation.slice(0, 1_500);
  const message =
    /"(?:message|error|error_message|detail|reason|exception)"\s*:\s*"((?:[^"\\]|\\.){1,600})/.exec(text);
  return message === null ? text : message[1]!.replace(/\\[nrt]/g, ' ').replaceAll('\\"', '"');
}

/**
 * Finds the lines that have a letter or a digit. Of an observation above 4,000 characters, only the first and the last
 * 2,000 characters are read.
 */
function significantLines(observation: string): string[] {
  const found: string[] = [];
  const head = observation.length > 4_000 ? observation.slice(0, 2_000) : observation;
  const tail = observation.length > 4_000 ? observation.slice(-2_000) : '';
  for (const text of [head, tail]) {
    for (const line of text.split('\n')) {
      const trimmed = line.trim();
      if (/[\p{L}\p{N}]/u.test(trimmed)) found.push(trimmed);
    }
  }
  return found;
}

/** Finds the sentence in which the agent says that its last step failed; '' without one. */
function findAdmission(thought: string): string {
  for (const sentence of splitSentences(thought.slice(0, 600), 2)) {
    if (ADMISSION.test(sentence) && !NO_ADMISSION.test(sentence)) return oneLine(sentence, ERROR_CHARACTERS);
  }
  return '';
}
