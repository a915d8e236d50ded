/**
 * The values of one run, each with its source: the task, the user's words, a tool's result, or the agent's own
 * arguments. A pattern names the source ("the payment id listed by get_user_details") instead of the value. The first
 * occurrence determines the source. Pure; actor threads and the command line.
 */

import type { Trace } from '../trace.ts';
import type { TraceStep } from '../trace-step.ts';
import { COMMON_WORDS, TECHNICAL_WORDS } from './common-words.ts';
import { isShell, readCommand, type StepVerdict } from './failures.ts';
import { looksLikeJson, type ScannedValue, scanJson } from './json-scan.ts';
import { generalizeText, isCommon, type RunWords } from './rule-text.ts';
import { renderJson } from './text.ts';

/**
 * Maximum number of values of a run that are kept: the first ones. Further values are recognized only by their form.
 */
const VALUES = 8_000;
/** Maximum number of values read from one text, and maximum characters read of a text that is not JSON. */
const VALUES_A_TEXT = 400;
const TEXT_CHARACTERS = 16_000;
/** Longer strings are sentences, which are generalized word by word. */
const VALUE_CHARACTERS = 100;
const VALUE_WORDS = 8;
/** Maximum number of characters of the conversation kept to check whether a value was mentioned. */
const HEARD_CHARACTERS = 64_000;

/** Fields with personal data. Their values are values of the run, except for common words in the LOOSE fields. */
const PERSONAL =
  /^(?:(?:first|last|middle|full|given|family|user|nick|customer|passenger|patient|guest|contact)?_?names?|surname|username|login|e_?mail|phone|mobile|tel|telephone|address\d?|address_line\d?|street|city|town|zip|zipcode|postal_?code|postcode|dob|birth|birthday|birth_?date|date_of_birth|passport|ssn|iban|recipient|sender|author|owner|assignee)$/;
/** Fields of PERSONAL whose value may be general: if it consists of common words, it is not a value of the run. */
const LOOSE = /^(?:names?|username|login|owner|author|address\d?|recipient|sender|city|town|street)$/;
/** Fields with sentences, code or commands, whose words are judged one by one. */
const PROSE =
  /^(?:command|cmd|script|code|errors?|error_message|message|msg|details?|reason|description|summary|text|content|body|notes?|comments?|status|stdout|stderr|output|result|thought|query|question|answer|old|new|old_string|new_string|old_str|new_str|patch|diff|expression|sql|input|prompt|instructions?)$/;
/** Text that is not a value: code, sentences. */
const CODE = /[(){};=<>]|=>|\n/;

export class RunValues implements RunWords {
  readonly #phrases = new Map<string, string>();
  /** Values by their first word in lower case, longest first. */
  readonly #byCore = new Map<string, string[]>();
  readonly #terms = new Set<string>();
  readonly #ordinary = new Set<string>();
  /** The task, then the user's words, in lower case. */
  #task: string;
  #said = '';

  constructor(trace: Pick<Trace, 'task'>) {
    this.#task = trace.task.slice(0, HEARD_CHARACTERS).toLowerCase();
    this.#readProse(trace.task);
  }

  /** Reads the next step of the run. */
  readStep(step: TraceStep, { is_talk }: Pick<StepVerdict, 'is_talk'>): void {
    const tool = nameTool(step);
    if (/^[A-Za-z][\w.:-]{0,60}$/.test(step.action)) this.#terms.add(step.action);
    this.#readProse(step.thought);
    if (is_talk && !looksLikeJson(step.action_input)) this.#readProse(step.action_input);
    this.#readArguments(step.action_input);
    if (is_talk) {
      this.#said = `${this.#said}\n${step.observation.toLowerCase()}`.slice(-HEARD_CHARACTERS);
      this.#readProse(step.observation);
    } else this.#readResult(step.observation, tool);
  }

  /** Replaces the run's values in a text. */
  text(text: string): string {
    return generalizeText(text, this);
  }

  /** Describes the value of an argument: by its source if it is one of the run's values, otherwise in general words. */
  argument(value: unknown): string {
    const plain = typeof value === 'string' ? value : renderJson(value, 400);
    const known = this.find(plain.trim());
    if (known !== undefined) return known;
    if (typeof value !== 'string') return this.text(this.#withSources(plain));
    const said = this.text(value);
    return isPlaceholder(said) ? said : JSON.stringify(said);
  }

  find(value: string): string | undefined {
    return this.#phrases.get(value.trim().toLowerCase());
  }

  match(text: string, at: number): { start: number; end: number; phrase: string } | undefined {
    const core = /^[\p{L}\p{M}\p{N}]+/u.exec(text.slice(at, at + 80))?.[0];
    if (core === undefined) return undefined;
    for (const value of this.#byCore.get(core.toLowerCase()) ?? []) {
      const lead = value.search(/[\p{L}\p{N}]/u);
      const found = text.slice(at, at + value.length - lead);
      if (found.toLowerCase() !== value.slice(lead).toLowerCase()) continue;
      if (/^[\p{L}\p{M}\p{N}_]/u.test(text.slice(at + found.length)) && /[\p{L}\p{N}_]$/u.test(found))
        continue;
      // "will" and "young" are words, "Will" and "Young" are names.
      if (found === found.toLowerCase() && COMMON_WORDS.has(found)) continue;
      const start =
        text.slice(Math.max(0, at - lead), at).toLowerCase() === value.slice(0, lead).toLowerCase()
          ? at - lead
          : at;
      return { start, end: at + found.length, phrase: this.#phrases.get(value.toLowerCase())! };
    }
    return undefined;
  }

  isTerm(word: string): boolean {
    return this.#terms.has(word) && !this.#phrases.has(word.toLowerCase());
  }

  isOrdinary(word: string): boolean {
    return this.#ordinary.has(word);
  }

  /** Replaces each of the run's values in a JSON text by its source. */
  #withSources(json: string): string {
    return json.replace(
      /"((?:[^"\\]|\\.){1,400})"(?!\s*:)|-?\b\d[\d.]*\b/g,
      (whole, text: string | undefined) => {
        return this.find(text ?? whole) ?? whole;
      },
    );
  }

  #readArguments(input: string): void {
    if (!looksLikeJson(input)) {
      this.#readForms(input, '');
      return;
    }
    for (const value of scanJson(input, VALUES_A_TEXT)) {
      if (!value.is_key) this.#note(value, '');
      // An argument's name is a term, but a key that is itself a value is not.
      else if (/^[a-z][A-Za-z_]{0,40}\d?$/.test(value.text) && splitWords(value.text).some(isKnownWord))
        this.#terms.add(value.text);
    }
  }

  #readResult(observation: string, tool: string): void {
    if (!looksLikeJson(observation)) {
      this.#readForms(observation, tool);
      return;
    }
    for (const value of scanJson(observation, VALUES_A_TEXT)) {
      if (!value.is_key) this.#note(value, tool);
      else if (!isFieldName(value.text)) this.#note({ ...value, is_key: false }, tool);
    }
  }

  /** Reads values from a text that is not JSON: personal fields with a colon, and words in the form of a value. */
  #readForms(text: string, tool: string): void {
    const shown = text.slice(0, TEXT_CHARACTERS);
    let left = VALUES_A_TEXT;
    for (const [, field, value] of shown.matchAll(
      /^\s*(?:[-*]\s+)?\**([A-Za-z][A-Za-z _]{1,30})\**:\s*\**([^\n*]{1,100})/gm,
    )) {
      if (--left < 0) return;
      const key = field!.trim().toLowerCase().replaceAll(' ', '_');
      if (PERSONAL.test(key))
        this.#note({ text: value!.trim(), is_number: false, is_key: false, key, parent: '' }, tool);
    }
    for (const [value] of shown.matchAll(
      /[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+|#?[\p{L}\p{N}_/.-]*\d[\p{L}\p{N}_/.-]*/gu,
    )) {
      if (--left < 0) return;
      const trimmed = value.replace(/[.\-_/]+$/, '');
      if (trimmed.length >= 3 && generalizeText(trimmed) !== trimmed)
        this.#keep(trimmed, kindOf(trimmed), tool);
    }
  }

  /** Keeps the words after "my name is", as long as they can be names. */
  #noteIntroduced(cue: string, names: string): void {
    const isSure = cue.includes('name is') || cue.includes("name's");
    for (const word of names.split(/\s+/)) {
      const lower = word.toLowerCase();
      const isLikely = isSure || !/(?:ed|ing|ly|ous|ive|able|al)$/.test(lower);
      if (isKnownWord(lower) || !isLikely) return;
      if (isSure || lower !== word) this.#keepPhrase(word, 'a name');
    }
  }

  #note(value: ScannedValue, tool: string): void {
    const text = value.text.trim();
    const key = normalizeKey(value.key);
    if (!isInstance(text, key, value.is_number)) return;
    this.#keep(text, nameKind(key, normalizeKey(value.parent), text), tool);
    if (value.is_number) return;
    const isPersonal = PERSONAL.test(key);
    const words = text.split(/[\s,]+/);
    if (words.length > 1 && (isPersonal || words.every((word) => /^\p{Lu}/u.test(word))))
      for (const word of words)
        this.#keepPart(word, nameKind(key, normalizeKey(value.parent), text), tool, isPersonal);
    // `mei_kovacs_8020`, `mei.kovacs@…`: the parts are names, too.
    if (words.length === 1 && /[\d@]/.test(text))
      for (const part of text.split('@')[0]!.split(/[^\p{L}\p{M}]+/u)) {
        if (part.length >= 3 && !isKnownWord(part.toLowerCase())) this.#keepPhrase(part, 'a name');
      }
  }

  #keepPart(word: string, kind: string, tool: string, isPersonal: boolean): void {
    const plain = word.replace(/^[^\p{L}\p{N}#]+|[^\p{L}\p{M}\p{N}]+$/gu, '');
    if (
      plain.length >= 2 &&
      !TECHNICAL_WORDS.has(plain.toLowerCase()) &&
      (isPersonal || /\d{2}/.test(plain) || /\p{Lu}|[^\x00-\x7f]/u.test(plain))
    )
      if (!COMMON_WORDS.has(plain.toLowerCase())) this.#keep(plain, kind, tool);
  }

  /**
   * Keeps a value with its source.
   * @param tool the tool whose result contains the value; '' for the agent's own words and the user's
   */
  #keep(value: string, kind: string, tool: string): void {
    const lower = value.toLowerCase();
    if (this.#phrases.has(lower)) return;
    let phrase = `${/^(?:[aeio]|u(?!ser|rl|nit|uid))/i.test(kind) ? 'an' : 'a'} ${kind}`;
    if (isNamed(this.#task, lower)) phrase = `the ${kind} named in the task`;
    else if (isNamed(this.#said, lower)) phrase = `the ${kind} named by the user`;
    else if (tool !== '') phrase = `the ${kind} listed by ${tool}`;
    this.#keepPhrase(value, phrase);
  }

  #keepPhrase(value: string, phrase: string): void {
    const lower = value.toLowerCase();
    if (this.#phrases.has(lower) || this.#phrases.size >= VALUES) return;
    this.#phrases.set(lower, phrase);
    // Numbers are compared by value, in any notation (rule-text.ts).
    if (/^[+-]?\d[\d.,]*$/.test(value)) {
      const plain = value.replaceAll(',', '').replace(/\.0+$/, '');
      if (!this.#phrases.has(plain)) this.#phrases.set(plain, phrase);
      return;
    }
    const core = /[\p{L}\p{M}\p{N}]+/u.exec(lower)?.[0];
    if (core === undefined) return;
    const same = this.#byCore.get(core) ?? [];
    same.push(value);
    same.sort((a, b) => b.length - a.length);
    this.#byCore.set(core, same);
  }

  /**
   * Reads the conversation: its words in lower case (a capitalized word at the beginning of a sentence may be either
   * a word or a name), and the names that it introduces.
   */
  #readProse(text: string): void {
    if (this.#ordinary.size >= VALUES) return;
    for (const [word] of text
      .slice(0, TEXT_CHARACTERS)
      .matchAll(/(?<=^|\s)\p{Ll}[\p{Ll}\p{M}]{1,20}(?=[\s,.!?]|$)/gu))
      this.#ordinary.add(word);
    for (const [, cue, names] of text
      .slice(0, TEXT_CHARACTERS)
      .matchAll(
        /\b(my name is|name is|my name's|named|called|i am|i'm|this is)\s+([\p{L}\p{M}'’-]{2,30}(?:\s+[\p{L}\p{M}'’-]{2,30}){0,2})/giu,
      ))
      this.#noteIntroduced(cue!.toLowerCase(), names!);
  }
}

/** Whether the whole text is a placeholder. */
function isPlaceholder(text: string): boolean {
  return /^(?:an? |the .* (?:named|listed) |…$)/.test(text) && !/["{[]/.test(text);
}

/** Names the source of a result: the tool, or the program that a shell ran. */
function nameTool({ action, action_input }: TraceStep): string {
  if (isShell(action)) {
    const command = readCommand(action_input);
    return /^[a-z][\w.-]*(?: [a-z][\w:-]*)?$/i.test(command) ? `\`${command}\`` : 'a command';
  }
  return /^[A-Za-z][\w.:-]{0,60}$/.test(action) && !/\d{2}/.test(action) ? action : 'an earlier step';
}

/** Whether a value under this key belongs to this run only. */
function isInstance(text: string, key: string, isNumber: boolean): boolean {
  if (isNumber) return text.replace(/\D/g, '').length > 1;
  if (text.length < 2 || text.length > VALUE_CHARACTERS || CODE.test(text)) return false;
  const words = text.split(/\s+/);
  if (words.length > VALUE_WORDS || (words.length > 1 && PROSE.test(key))) return false;
  const isCommonText = words.every((word) => isKnownWord(word.toLowerCase().replace(/[.,!?]+$/, '')));
  if (PERSONAL.test(key)) return !(LOOSE.test(key) && isCommonText);
  if (isCommonText) return false;
  if (/[@\d]/.test(text)) return generalizeText(text) !== text;
  if (words.length > 5) return false;
  if (/[/\\]/.test(text) || /\.\w{1,5}$/.test(text)) return generalizeText(text) !== text;
  if (/[^\x00-\x7f]/.test(text)) return true;
  if (/[A-Z]/.test(text))
    return words.every((word) => /^[A-Z#]/.test(word)) && generalizeText(`the ${text}`) !== `the ${text}`;
  if (words.length > 1) return words.length <= 3 && !words.some(isKnownWord);
  return text.includes('_') && !text.split('_').some(isKnownWord);
}

/** Whether a key is the name of a field, not a value under which others are listed. */
function isFieldName(key: string): boolean {
  if (/[\s@#]/.test(key) && /\d|\p{Lu}|@/u.test(key)) return false;
  if (/\d/.test(key)) return generalizeText(key) === key;
  return !/[^\x00-\x7f]/.test(key) && (splitWords(key).some(isKnownWord) || /^[a-z]+$/.test(key));
}

/**
 * Names the kind of a value in the words of its key, or of the key above if the key is general (`id`, `value`). Unless
 * these are one to four words that are all known, names the kind by the form of the value.
 */
function nameKind(key: string, parent: string, text: string): string {
  const isGeneral = key === 'id' || key === 'value' || key === '' || key === 'key';
  const own = splitWords(isGeneral ? parent : key);
  const words = own.map((word, at) => (at === own.length - 1 ? singular(word) : word));
  if (
    words.length === 0 ||
    words.length > 4 ||
    !words.every((word) => /^[a-z]{2,20}$/.test(word) && (isKnownWord(word) || FIELD_WORDS.has(word)))
  )
    return kindOf(text);
  if (key === 'id') words.push('id');
  return words.join(' ');
}

const FIELD_WORDS = new Set([
  'dob',
  'zip',
  'sku',
  'iban',
  'ssn',
  'uuid',
  'isbn',
  'surname',
  'postcode',
  'zipcode',
  'cabin',
]);

/** Names the kind of a value by its form; `value` if the form is not known. */
function kindOf(text: string): string {
  const general = generalizeText(text);
  return /^an? (?:(?:\.\w+ )?file|[a-z-]+(?: [a-z]+)?|URL)$/.test(general)
    ? general.replace(/^an? /, '')
    : 'value';
}

function normalizeKey(key: string): string {
  return splitWords(key).join('_');
}

/** Splits a key such as `paymentMethodId` or `payment-method_id` into its words. */
function splitWords(key: string): string[] {
  return key
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter(Boolean);
}

function singular(word: string): string {
  if (word.endsWith('ies')) return `${word.slice(0, -3)}y`;
  return word.endsWith('s') && !/(?:ss|us|is)$/.test(word) ? word.slice(0, -1) : word;
}

/** Whether the word, or each part of a compound, is common or technical. */
function isKnownWord(word: string): boolean {
  return word.split(/[_-]/).every(isCommon);
}

/** Whether the text contains the value as a whole word. Both are in lower case. */
function isNamed(text: string, value: string): boolean {
  for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
    const isApart =
      !/[\p{L}\p{N}_]/u.test(text.charAt(at - 1)) && !/[\p{L}\p{N}_]/u.test(text.charAt(at + value.length));
    if (isApart) return true;
  }
  return false;
}
