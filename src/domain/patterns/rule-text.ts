/**
 * Removes the values of a single run from a text. An id, name, address, amount, date or path is replaced by its source
 * if the run shows one (run-values.ts), otherwise by its kind ("an id"). Tool names, argument names, error classes,
 * commands, packages, flags and file types stay, because they are part of the rule. A capitalized word that is neither
 * common nor technical counts as a name. A word that cannot be classified is omitted ("…"). Pure; actor threads and the
 * command line.
 */

import { COMMON_WORDS, TECHNICAL_WORDS } from './common-words.ts';

/** What a run reveals about the words of a text. */
export interface RunWords {
  /** Finds the replacement for the value; undefined if it is not one of the run's values. */
  find(value: string): string | undefined;
  /**
   * Finds the longest value of the run that begins at `at`, with its end and its replacement; undefined if none begins
   * there.
   */
  match(text: string, at: number): { start: number; end: number; phrase: string } | undefined;
  /** Whether the word names a tool or an argument. */
  isTerm(word: string): boolean;
  /** Whether the word occurs in lower case in the conversation. */
  isOrdinary(word: string): boolean;
}

/** For a text whose run is unknown. */
export const NO_RUN: RunWords = {
  find: () => undefined,
  match: () => undefined,
  isTerm: () => false,
  isOrdinary: () => false,
};

/** Increase it when the rules change. Then stored patterns are checked once with the new rules. */
export const RULE_VERSION = 1;

const OMITTED = '…';
const KINDS =
  'name|names|code|id|number|date|time|amount|percentage|e-mail address|phone number|address|URL|host|path|value';

const MONTH =
  '(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)';
const DAY = '\\d{1,2}(?:st|nd|rd|th)?';
const CLOCK = '\\d{1,2}:\\d{2}(?::\\d{2}(?:[.,]\\d{1,9})?)?';
const STREET =
  'Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Way|Place|Pl|Terrace|Square|Sq|Highway|Hwy|Parkway|Pkwy|Circle|Cir|Alley|Close|Crescent|Row';

/** Values that consist of several words, and values in a form that no word has, in the order of the search. */
const FORMS: readonly (readonly [RegExp, string])[] = [
  [/[\p{L}\p{N}._%+'-]{1,80}@[\p{L}\p{N}-]{1,80}(?:\.[\p{L}\p{N}-]{1,40}){1,6}/gu, 'an e-mail address'],
  [/\b[a-z][a-z0-9+.-]{1,15}:\/\/[^\s"'`<>()[\]{}|]{1,2000}/gi, 'a URL'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, 'an id'],
  [
    new RegExp(
      `(?<![\\w.])\\d{4}[-/]\\d{1,2}[-/]\\d{1,2}(?:(?:T|,? )${CLOCK}(?: ?(?:Z|UTC|[+-]\\d{2}:?\\d{2}))?)?(?![\\w])`,
      'g',
    ),
    'a date',
  ],
  [/(?<![\w.])\d{1,2}(?:[/-]\d{1,2}[/-]\d{2,4}|\.\d{1,2}\.\d{4})(?![\w/-])/g, 'a date'],
  [new RegExp(`(?<!\\w)${DAY}(?: of)?[ -]${MONTH}\\b\\.?(?:,?[ -]\\d{4})?`, 'gi'), 'a date'],
  [new RegExp(`\\b${MONTH}\\b\\.?[ -](?:${DAY}(?!\\w)(?:,? ?\\d{4})?|\\d{4}\\b)`, 'gi'), 'a date'],
  [
    new RegExp(
      `(?<![\\w:.])${CLOCK}(?: ?(?:[ap]m\\b|[ap]\\.m\\.))?(?: (?:UTC|GMT|[CEMP][SD]?T|CET|CEST|BST))?(?![\\w:])`,
      'gi',
    ),
    'a time',
  ],
  [/(?<![\w.])\d{1,2} ?(?:[ap]m\b|[ap]\.m\.)/gi, 'a time'],
  [/(?:[$€£¥₹₽₩]|\b(?:USD|EUR|GBP|CHF|JPY|INR))\s?-?\d[\d,.]*(?<=\d)(?:\s?[kKmM]\b)?/g, 'an amount'],
  [
    /(?<![\w.])-?\d[\d,.]*(?<=\d)\s?(?:USD|EUR|GBP|CHF|JPY|INR|CAD|AUD|dollars?|euros?|pounds?|cents?|rupees?|yen|[€£$¥₹₽₩])(?![\w])/gi,
    'an amount',
  ],
  [/(?<![\w.])\d+(?:[.,]\d+)?\s?%/g, 'a percentage'],
  [
    new RegExp(
      `(?<!\\w)\\d{1,6}[A-Za-z]?,?\\s+(?:[\\p{Lu}\\p{N}][\\p{L}\\p{M}\\p{N}'’.-]*\\s+){1,4}(?:${STREET})\\b\\.?`,
      'gu',
    ),
    'an address',
  ],
  [
    /(?<!\w)\d{1,6} [a-z'’]{3,20}(?: [a-z'’]{3,20})? (?:street|avenue|boulevard|lane|road|drive)\b/g,
    'an address',
  ],
  [
    /\p{Lu}[\p{L}\p{M}-]{2,40}(?:straße|strasse|weg|platz|allee|gasse|gatan|straat)\s+\d{1,4}\s?[a-z]?(?!\w)/gu,
    'an address',
  ],
  [
    /(?<!\w)\d{1,5},?\s+(?:rue|avenue|boulevard|chemin|impasse|allée|quai|place)\s+(?:(?:de la|de l['’]|des|du|de)\s*)?[\p{L}\p{M}'’-]{2,30}(?:\s+\p{Lu}[\p{L}\p{M}'’-]*){0,3}/giu,
    'an address',
  ],
  [
    /(?<!\p{L})(?:Calle|Avenida|Av\.|Carrera|Plaza|Paseo|Via|Viale|Piazza|Rua|Ulica|ul\.|ул\.|улица|проспект)\s+(?:[\p{L}\p{M}'’.-]+\s+){0,4}[\p{L}\p{M}'’.-]+,?\s+\d{1,5}\s?[a-zA-Z]?(?!\w)/giu,
    'an address',
  ],
  [/\b(?:Suite|Apt\.?|Apartment|Flat|P\.?O\.? ?Box)\s+#?\w{0,6}\d\w{0,4}\b/gi, 'an address'],
];

const PHONE =
  /(?<![\w.])\+?\(?\d{1,4}\)?(?:[ .-]\(?\d{2,4}\)?){2,5}(?![\w.]*\d)|(?<!\w)\+\d{7,15}(?!\w)|\(\d{2,4}\) ?\d{3,4}[ .-]?\d{3,4}/g;

const PERSONAL_FIELD =
  '(?:(?:first|last|middle|full|given|family|user|nick|maiden|company|customer|patient|guest|passenger|contact|recipient|sender|billing|shipping)[_ -]?)?(?:names?|surname)|e-?mail(?:[_ -]?address)?|phone(?:[_ -]?number)?|mobile|address(?:[_ -]?(?:line)?[_ -]?\\d)?|street|city|town|zip(?:[_ -]?code)?|post(?:al)?[_ -]?code|dob|date[_ -]of[_ -]birth|birth(?:day|date)|passport(?:[_ -]?number)?|ssn|iban';
/** The value of a personal field: in a call, in JSON, in a list of fields, after a flag. */
const FIELD = new RegExp(
  `(?<![\\p{L}\\p{N}])(${PERSONAL_FIELD})(["']?\\s{0,3}[:=]\\s{0,3}|\\s+is\\s+|\\s+)(?:"([^"\\n]{1,120})"|'([^'\\n]{1,120})'|([\\p{L}\\p{N}][^\\s,;)}\\]"'\`]{0,60}(?:(?: \\p{Lu}[\\p{L}\\p{M}.'’-]*){1,3})?))`,
  'giu',
);
/** Words that may follow a field's name without being its value. */
const NO_VALUE =
  /^(?:an?$|the$|an? |the |no |not |none|null|undefined|true|false|string|str|text|required|missing|invalid|empty|unknown|optional|different|correct|incorrect|wrong|in |on |at |…)/i;

/** Words that introduce a name. */
const TITLE =
  /\b(Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau|Madame|Monsieur|Señora?|Sr|Sra)\.?\s+\p{Lu}[\p{L}\p{M}'’-]*(?:\s+\p{Lu}[\p{L}\p{M}'’-]*){0,2}/gu;

const TOKEN = /[\p{L}\p{M}\p{N}_#@~$%+*&/\\.'’-]+(?:::[\p{L}\p{N}_.[\]-]+)*/gu;

/** Types of files by their ending. */
const FILE_TYPE =
  /\.(?:[cm]?[jt]sx?|d\.ts|py[iw]?|ipynb|rs|go|rb|php|java|kts?|scala|swift|c|cc|cpp|cxx|h|hpp|cs|fs|vb|lua|pl|r|jl|ex|exs|erl|hs|clj|dart|vue|svelte|html?|css|scss|less|json[l5]?|ya?ml|toml|ini|cfg|conf|env|xml|csv|tsv|md|mdx|rst|txt|log|lock|sql|sqlite3?|db|sh|bash|ps1|bat|cmd|dockerfile|tf|proto|graphql|gradle|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|tar|gz|tgz|bz2|xz|7z|parquet|pkl|bak|tmp|diff|patch|exe|dll|so|whl|jar|war)$/i;
/** Files with conventional names. */
const COMMON_FILES =
  /^(?:package(?:-lock)?\.json|tsconfig(?:\.\w+)?\.json|pnpm-lock\.yaml|yarn\.lock|cargo\.(?:toml|lock)|go\.(?:mod|sum)|pyproject\.toml|setup\.(?:py|cfg)|requirements(?:-\w+)?\.txt|tox\.ini|pytest\.ini|conftest\.py|__init__\.py|manage\.py|makefile|dockerfile|docker-compose\.ya?ml|cmakelists\.txt|gemfile(?:\.lock)?|pom\.xml|build\.gradle(?:\.kts)?|gradlew|readme\.md|changelog\.md|license|\.gitignore|\.env|\.npmrc|\.eslintrc(?:\.json)?|\.prettierrc|(?:vite|vitest|jest|webpack|babel|next|biome|eslint)\.config\.\w+|index\.html|main\.py|app\.py)$/i;
const HOST =
  /^(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|app|ai|co|example|test|local|internal|info|biz|edu|gov|uk|de|fr|es|it|nl|eu|us|ca|au|jp|cn|in|br|ru|pl|se|ch|at)(?::\d+)?$/i;
/** Words with digits that are terms. */
const TERM_WITH_DIGITS =
  /^(?:utf-?(?:8|16|32)|iso-?8601|iso-?8859-\d+|sha-?(?:1|224|256|384|512)|md5|base(?:32|58|64)(?:url)?|u?int(?:8|16|32|64)|float(?:16|32|64)|f(?:32|64)|[iu](?:8|16|32|64)|bf16|h[1-6]|ipv[46]|http\/?[123](?:\.[01])?|es(?:5|6|20\d\d)|python[23]?(?:\.\d{1,2})?|pip3|py[23]\d{0,2}|x86(?:_64)?|x64|amd64|arm64|win32|k8s|i18n|l10n|a11y|s3|ec2|oauth2?|log4j2?|mp[34]|h26[45]|2fa|mfa|b2b|b2c|[1-4]d|x509|web3|neo4j|bz2|7z|sqlite3|boto3|urllib3|psycopg2?|node(?:1[0-9]|2[0-9])|ubuntu\d\d|[1-5]xx|\d(?:st|nd|rd|th|x|ms|s|m|h|d|kb|mb|gb|px)|v\d+(?:\.\d+){0,3}|(?:TS|CS|SC|RS)\d{4}|[EWFCN]\d{3,4}|ORA-\d{5}|ERR_\w+|CVE-\d{4}-\d{4,7})$/i;
const ERROR_CLASS = /(?:Error|Exception|Warning|Failure|Fault|Timeout|Interrupt|Panic)s?$/;
/** McDonald, O'Brien, DeShawn: a name with a capital inside. */
const INNER_CAPITAL_NAME = /^(?:Mc|Mac|O['’]|D['’]|Fitz|De|Di|Du|La|Le|Van|Von)\p{Lu}[\p{Ll}\p{M}]+$/u;
const CALENDAR =
  /^(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:days?)?$|^(?:january|february|march|april|june|july|august|september|october|november|december|jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)$/i;
const STATUS_BEFORE =
  /(?<![\w])(?:HTTP(?:\/\d(?:\.\d)?)?|status(?:[ _]?code)?|error(?:[ _]?code)?|code|errno|returned)["']?\W{0,3}$/i;
const STATUS_AFTER =
  /^\W{0,2}(?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not|Not Acceptable|Request|Conflict|Gone|Payload|Unsupported|Unprocessable|Too Many|Internal|Not Implemented|Bad Gateway|Service|Gateway|Client Error|Server Error)/i;
const STATUS_CODE = /^(?:200|20[1-6]|30[1-478]|40[0-9]|41[0-8]|42[1-689]|431|451|50[0-8]|51[01]|52[0-6])$/;
const EXIT_BEFORE =
  /(?<![\w])(?:exit(?:ed)?(?: with)?(?:[ _](?:code|status))?(?: status)?|return(?:ed|s)? code|signal|errno)["']?\W{0,3}$/i;
const RUNTIME_BEFORE =
  /(?<![\w])(?:python|node(?:\.?js)?|java|jdk|ruby|php|go(?:lang)?|rust|perl|npm|yarn|pnpm|typescript|react|angular|vue|django|flask|postgres(?:ql)?|mysql|redis|ubuntu|debian|windows|macos|ios|android|chrome|firefox|kubernetes|docker|gcc|clang|cuda|pytorch|tensorflow|bootstrap)[ -]v?$/i;
const VERSION_BEFORE = /(?:[A-Za-z][\w.-]*(?:==|>=|<=|~=|!=|@\^?|\^)|\bversion ?v?|\bv)$/i;

/**
 * Replaces the values of a single run in a text. A second application changes nothing.
 * @param run what is known of the run; without it, only the form of a value counts
 */
export function generalizeText(text: string, run: RunWords = NO_RUN): string {
  if (!/[\p{Lu}\p{Lo}\p{N}@/\\_:=]/u.test(text) && run === NO_RUN) return text;
  let rest = text;
  for (const [form, kind] of FORMS.slice(0, 2))
    rest = rest.replace(form, (found) => keepEnd(found, (value) => run.find(value) ?? kind));
  rest = replaceKnown(rest, run);
  rest = rest.replace(FIELD, replaceField);
  rest = rest.replace(TITLE, '$1. a name');
  for (const [form, kind] of FORMS.slice(2))
    rest = rest.replace(form, (found) => {
      const known = kind === 'an amount' ? run.find(amountOf(found)) : undefined;
      return known ?? run.find(found) ?? kind;
    });
  rest = rest.replace(PHONE, (found) =>
    found.replace(/\D/g, '').length >= 7 ? (run.find(found) ?? 'a phone number') : found,
  );
  rest = rest.replace(TOKEN, (token, at: number) => replaceToken(token, at, rest, run));
  return tidy(rest);
}

/** Replaces a value, but keeps punctuation and apostrophes at its end, which do not belong to the value. */
function keepEnd(found: string, replace: (value: string) => string): string {
  const [end] = /[.,;:!?'’]*$/.exec(found)!;
  return replace(found.slice(0, found.length - end.length)) + end;
}

/** Writes an amount as a plain number: `$1,859.00` as `1859`. */
function amountOf(text: string): string {
  return text.replace(/[^\d.-]/g, '').replace(/\.0+$/, '');
}

function replaceKnown(text: string, run: RunWords): string {
  if (run === NO_RUN) return text;
  let out = '';
  let done = 0;
  for (const { index: at } of text.matchAll(/(?<![\p{L}\p{M}\p{N}_])[\p{L}\p{N}]/gu)) {
    if (at < done) continue;
    const found = run.match(text, at);
    if (found === undefined || found.start < done) continue;
    out += text.slice(done, found.start) + found.phrase;
    done = found.end;
  }
  return done === 0 ? text : out + text.slice(done);
}

function replaceField(
  whole: string,
  field: string,
  link: string,
  double: string | undefined,
  single: string | undefined,
  bare: string | undefined,
  at: number,
  text: string,
): string {
  // An unquoted value is the first word and the capitalized words after it.
  const [, word = '', rest = ''] = /^(\S+(?: \p{Lu}\S*)*)(.*)$/su.exec(bare ?? '') ?? [];
  const [end] = /[.,;:!?'’]*$/.exec(word)!;
  const value = double ?? single ?? word.slice(0, word.length - end.length);
  // "The name is required", `name=a name` and `cabin_name="economy"` contain nothing to replace.
  if (NO_VALUE.test(value) || /^\W*$/.test(value)) return whole;
  const isStrict =
    /[:=]/.test(link) || field.includes('_') || text.slice(0, at).endsWith('--') || /\d/.test(value);
  if (bare !== undefined && (!isStrict || !/[:=]/.test(link)) && isCommon(value.split(' ')[0]!)) return whole;
  if (bare !== undefined && !isStrict && !link.includes('is')) return whole;
  if (bare === undefined && /^[a-z_]+$/.test(value) && value.split('_').every(isCommon)) return whole;
  const noun = field.toLowerCase().replaceAll(/[_-]+/g, ' ').trim();
  const kind = `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun === 'e mail' || noun === 'email' ? 'e-mail address' : noun}`;
  return `${field}${link}${kind}${bare === undefined ? '' : end + rest}`;
}

function replaceToken(token: string, at: number, text: string, run: RunWords): string {
  const [, before, body, after] = /^(['’*&.~+-]{0,3})(.*?)(['’*&.-]*)$/su.exec(token)!;
  if (body === '') return token;
  const start = at + before!.length;
  const end = start + body!.length;
  if (run.isTerm(body!)) return token;
  const kind = judgeWord(body!, { text, start, end, run, lead: before! });
  if (kind === null) return token;
  // `./x` is a path, `-5` an amount: the leading characters belong to the value.
  return (/^(?:a|the) (?:path|number|\.\w+ file)/.test(kind) ? '' : before!) + kind + after!;
}

interface Place {
  text: string;
  start: number;
  end: number;
  run: RunWords;
  /** Characters before the word in its token: the dots of `.ts` and `./x`, the dashes of a flag. */
  lead: string;
}

/**
 * Decides how a word is replaced.
 * @returns the replacement for the word; null: it stays
 */
function judgeWord(word: string, place: Place): string | null {
  // In scripts without capitals, names cannot be distinguished from words.
  if (/(?![ªº])\p{Lo}/u.test(word)) return OMITTED;
  if (!/\p{L}/u.test(word)) return judgeNumber(word, place);
  if (/[/\\]/.test(word) || /^~/.test(place.lead)) return judgePath(word, place);
  if (FILE_TYPE.test(word) && word.includes('.') && !place.lead.includes('.'))
    return judgeFile(word, place.run);
  if (/\d/.test(word)) return judgeMixed(word, place);
  if (HOST.test(word)) return 'a host';
  if (word.includes('_') || word.includes('@') || word.includes('#')) return judgeJoined(word, place);
  return judgeLetters(word, place);
}

function judgeNumber(word: string, { text, start, end, run }: Place): string | null {
  const digits = word.replace(/\D/g, '');
  if (digits === '' || (digits.length < 2 && !/[#/]/.test(word))) return null;
  const before = text.slice(Math.max(0, start - 24), start);
  const known = run.find(word) ?? run.find(word.replace(/^[#+-]/, '')) ?? run.find(amountOf(word));
  const isVersion =
    /^\d+(?:\.\d+){1,3}$/.test(word) && (VERSION_BEFORE.test(before) || RUNTIME_BEFORE.test(before));
  const isStatus =
    (STATUS_CODE.test(word) &&
      (STATUS_BEFORE.test(before) || STATUS_AFTER.test(text.slice(end, end + 24)))) ||
    (/^\d{1,3}$/.test(word) && EXIT_BEFORE.test(before));
  if (isStatus || isVersion) return null;
  if (known !== undefined) return known;
  if (word.startsWith('#') || /^\d{5,}$/.test(word)) return 'an id';
  if (/^(?:19|20)\d\d$/.test(word)) return 'a date';
  return /^\d[\d,]*\.\d\d$/.test(word) ? 'an amount' : 'a number';
}

function judgePath(word: string, place: Place): string | null {
  const { run } = place;
  const known = run.find(word) ?? run.find(place.lead + word);
  if (known !== undefined) return known;
  if (/^(?:application|text|image|audio|video|multipart)\/[\w.+-]+$/.test(word)) return null;
  const parts = word.split(/[/\\]+/).filter(Boolean);
  // A package with its scope stays, and so do "and/or", "TCP/IP" and `src/`.
  if (/^@[a-z-]+\/[a-z.-]+$/.test(word)) return null;
  const isWords = parts.length <= 2 && parts.every((part) => /^[\p{L}-]+$/u.test(part) && isCommon(part));
  if (isWords && !/^[/\\]/.test(word) && !place.lead.includes('.')) return null;
  if (parts.length <= 1 && /^[/\\]*$/.test(word)) return null;
  if (/^\d$/.test(parts[0] ?? '') && parts.length === 2 && /^\d$/.test(parts[1]!)) return null;
  return judgeFile(parts.at(-1) ?? '', run) ?? parts.at(-1) ?? 'a path';
}

/**
 * Decides how a file's name is replaced: by its source if it is a value of the run; a conventional name stays (null);
 * of any other name, only the type remains.
 */
function judgeFile(name: string, run: RunWords): string | null {
  const [file = ''] = name.split('::');
  const known = run.find(name) ?? run.find(file);
  if (known !== undefined) return known;
  if (COMMON_FILES.test(file)) return null;
  const [type] = FILE_TYPE.exec(file) ?? [];
  return type === undefined ? 'a path' : `a ${type.toLowerCase()} file`;
}

function judgeMixed(word: string, { run }: Place): string | null {
  const known = run.find(word);
  if (known !== undefined) return known;
  if (TERM_WITH_DIGITS.test(word)) return null;
  // One digit at the end of a common word, as in `address1` or `step_2`, does not make an id.
  const [, stem] = /^([a-z_-]{2,})\d$/.exec(word) ?? [];
  if (stem?.split(/[_-]+/).filter(Boolean).every(isCommon)) return null;
  if (/^[a-z]+(?:-[a-z]+)*[=<>~^@]/.test(word)) return null;
  return 'an id';
}

/**
 * Decides how a word of several parts is replaced: `get_user_details` is a term and stays (null), `mei_kovacs` is an
 * id.
 */
function judgeJoined(word: string, { text, start, end, run }: Place): string | null {
  const known = run.find(word);
  if (known !== undefined) return known;
  // The name of a call stays, and so does the source that replaced a value.
  if (text.charAt(end) === '(' || text.slice(0, start).endsWith(' listed by ')) return null;
  const parts = word.split(/[_@#.'’-]+/).filter(Boolean);
  if (parts.length === 0) return null;
  return parts.some(isCommon) || parts.every((part) => part.length < 3) ? null : 'an id';
}

function judgeLetters(word: string, place: Place): string | null {
  const { text, start, end, run } = place;
  if (/^[\p{Ll}\p{M}]/u.test(word)) {
    // A word that begins with a small letter is a term, unless it is a meaningless code with capitals inside.
    return word.length >= 20 &&
      !/[-.'’]/.test(word) &&
      /\p{Lu}.*\p{Lu}.*\p{Lu}/u.test(word) &&
      !hasCommonHump(word)
      ? 'an id'
      : null;
  }
  const plain = word.replace(/['’](?:s|d|ll|m|re|ve|t)$/i, '');
  const ending = word.slice(plain.length);
  if (
    /n['’]?t$/i.test(word) &&
    /^(?:don|can|won|isn|aren|wasn|weren|doesn|didn|hasn|haven|couldn|wouldn|shouldn)['’]?t?$/i.test(plain)
  )
    return null;
  if (plain.length === 1 || /^(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau|Madame|Monsieur|Señora?|Sra?)$/.test(plain))
    return null;
  if (isCommon(plain) || TECHNICAL_WORDS.has(plain.toLowerCase())) return null;
  const next = text.slice(end, end + 12);
  if (/^(?:may|will|mark)$/i.test(plain) && /^ (?:I|you|we|it|the|this|that|all|be)\b/.test(next))
    return null;
  if (CALENDAR.test(plain)) return 'a date';
  if (/[-.]/.test(plain)) return judgeCompound(plain, place);
  // An environment variable stays.
  if (/^[A-Z]{4,}$/.test(plain) && (/[`$]$/.test(text.slice(0, start)) || next.startsWith('='))) return null;
  if (/^[A-Z]{5,}$/.test(plain) && isCutOff(plain.toLowerCase())) return null;
  if (/^\p{Lu}{2,}$/u.test(plain)) return plain.length > 5 && plain.length !== 6 ? 'a name' : 'a code';
  if (INNER_CAPITAL_NAME.test(plain)) return 'a name';
  if (/\p{Ll}\p{Lu}/u.test(plain) || ERROR_CLASS.test(plain)) return hasCommonHump(plain) ? null : 'a name';
  if (/^(?:\(|::|\[)/.test(next) && /^[A-Z][a-z]+$/.test(plain)) return null;
  if (!isSentenceStart(text, start))
    return `a name${ending.endsWith('s') && ending.length === 2 ? ending : ''}`;
  if (run.isOrdinary(plain.toLowerCase())) return null;
  return /^\s+\p{Lu}/u.test(next) ? 'a name' : OMITTED;
}

/**
 * Decides how a word with hyphens or dots is replaced: `Follow-up` and `Session.query` stay (null), `Jean-Luc` is a
 * name.
 */
function judgeCompound(word: string, place: Place): string | null {
  const parts = word.split(/[-.]+/).filter(Boolean);
  const isKnown = (part: string): boolean =>
    /^[\p{Ll}\p{M}]/u.test(part) ||
    part.length === 1 ||
    isCommon(part) ||
    hasCommonHump(part) ||
    place.run.isTerm(part);
  return parts.every(isKnown) ? null : 'a name';
}

/** Whether the word is technical, or is a common word in any of its regular forms. */
export function isCommon(word: string): boolean {
  const lower = word.toLowerCase();
  if (COMMON_WORDS.has(lower) || TECHNICAL_WORDS.has(lower)) return true;
  const stem = /^(.{3,}?)(?:s|es|ed|d|ing|ly|er|ers)$/.exec(lower)?.[1];
  return (
    stem !== undefined &&
    (COMMON_WORDS.has(stem) || (/(?:ed|ing|er|ers)$/.test(lower) && COMMON_WORDS.has(`${stem}e`)))
  );
}

/**
 * Whether the word is a common word without its last letter, such as `SELEC`. It stays, because the pattern may be
 * about this typing error.
 */
function isCutOff(lower: string): boolean {
  for (const letter of 'abcdefghijklmnopqrstuvwxyz') if (COMMON_WORDS.has(lower + letter)) return true;
  return false;
}

/** Whether a part of the word is a common word (`useState`), or the word names an error (`TypeError`). */
function hasCommonHump(word: string): boolean {
  if (ERROR_CLASS.test(word)) return true;
  const humps = word.match(/\p{Lu}?[\p{Ll}\p{M}]+|\p{Lu}+(?!\p{Ll})/gu) ?? [];
  return humps.length > 1 && humps.some((hump) => hump.length > 1 && isCommon(hump));
}

function isSentenceStart(text: string, at: number): boolean {
  return /(?:^|[.!?:;…]["'”’)]?\s+|\n|["“'‘`([{→•|]|(?:^|\s)[-*]\s+)["“'‘`([{]?$/.test(
    text.slice(Math.max(0, at - 8), at),
  );
}

/** Merges consecutive placeholders, and removes articles before them. */
function tidy(text: string): string {
  return text
    .replace(/\ba name(?: \p{Lu}[\p{Ll}\p{M}]+)+(?![\p{L}\p{N}_(])/gu, (found) =>
      found
        .split(' ')
        .slice(2)
        .some((word) => TECHNICAL_WORDS.has(word.toLowerCase()))
        ? found
        : 'a name',
    )
    .replace(/\b(?:a name(?:['’]s)?(?:,? (?:and |or )?|-))+a name\b/g, 'a name')
    .replace(/\ban address(?:,? (?:a name|a code|a number|an id|an address)\b)+/g, 'an address')
    .replace(/\b(a number|an id|a date|a code|an amount)(?:(?:,? and |,? or |,? |-)\1\b)+/g, '$1')
    .replace(/(?:…[\s,.;:]*){2,}/g, (found) => (/[.;:]\s*$/.test(found) ? '…. ' : '… '))
    .replace(/\b(\w+(?: \w+)?) the \1\b/g, 'the $1')
    .replace(/\b(?:an?|the|my|your|his|her|their|our) (the [a-z]+(?: [a-z]+){0,3} (?:named|listed) )/gi, '$1')
    .replace(
      new RegExp(`\\b(the|my|your|his|her|their|our|its|this|that|a|an) (?:an?) (${KINDS})\\b`, 'gi'),
      '$1 $2',
    )
    .replace(
      /(?<![\w-])(order|reservation|booking|user|customer|product|item|payment|ticket|flight|account|invoice|case|session|request|transaction|issue) (?:(?:number|id|no\.?) )?an id\b/gi,
      (_whole, noun: string) =>
        `${/^[aeiou]/i.test(noun) && !/^user/i.test(noun) ? 'an' : 'a'} ${noun.toLowerCase()} id`,
    )
    .trim();
}

/** Whether a pattern still has a lesson without the values of its run. */
export function teachesSomething({ situation, unlock }: { situation: string; unlock: string }): boolean {
  return countWords(situation) >= 3 && countWords(unlock) >= 3;
}

/** Counts the words that are not placeholders. */
function countWords(text: string): number {
  return text.replace(PLACEHOLDER, '').match(/\p{L}{2,}/gu)?.length ?? 0;
}

const PLACEHOLDER = new RegExp(`\\ban? (?:\\w+ ){0,2}(?:${KINDS})\\b|…`, 'g');

/** Whether a sentence is still meaningful without its values. */
export function saysSomething(sentence: string): boolean {
  const placeholders = sentence.match(PLACEHOLDER)?.length ?? 0;
  const words = countWords(sentence);
  return words >= 3 && words >= placeholders * 3;
}
