/** The flags of `understudy inspect`. Main thread of the command line. */

import type { BodySide } from '../captures/exchange-source.ts';
import type { RunFilter } from '../captures/inspect.ts';
import { FIGURE_DIMENSIONS, type FigureDimension } from '../domain/traffic-figures.ts';
import { EXPORT_FORMATS } from '../export/export-rows.ts';
import { type FlagValues, readFlagsAndWords, refuseWords } from './flags.ts';
import { UsageError } from './io.ts';
import { readSince } from './since.ts';
import { formatJson } from './terminal-text.ts';

/** The requested page. */
export interface InspectFlags extends RunFilter {
  db: string | undefined;
  /** Words of the query language; '' without a query. */
  query: string;
  run: string | null;
  exchange: number | null;
  /** Id of the exchange whose step is explained. */
  step: number | null;
  /** The student's directory; null: not given. */
  student: string | null;
  raw: BodySide | null;
  json: boolean;
  full: boolean;
  /** Shows how the turns used the provider's cache, instead of the turns themselves. */
  cache: boolean;
  /** Shows the remaining limits of providers. */
  limits: boolean;
  /** The format of a file with the runs, on standard output; null: a table or JSON. */
  format: InspectExport | null;
  /** Shows figures grouped by this dimension, instead of runs. */
  by: FigureDimension | null;
  limit?: number;
}

const FORMATS = [...EXPORT_FORMATS, 'otlp'] as const;
export type InspectExport = (typeof FORMATS)[number];

const FLAGS = {
  db: 'text',
  run: 'text',
  exchange: 'text',
  step: 'text',
  student: 'text',
  raw: 'text',
  since: 'text',
  golden: 'switch',
  'not-golden': 'switch',
  limit: 'text',
  json: 'switch',
  full: 'switch',
  cache: 'switch',
  limits: 'switch',
  by: 'text',
  export: 'text',
} as const;

const NEGATED_WORD = /^-[a-z_]+[:<>]/i;

/**
 * Reads the flags of the command.
 * @throws UsageError on wrong use
 */
export function readInspectFlags(argv: string[], nowMs: number): InspectFlags | 'help' {
  // `-status:ok` is a word of a query, not a flag.
  const negated = argv.filter((word) => NEGATED_WORD.test(word));
  const { values, words } = readFlagsAndWords(
    argv.filter((word) => !NEGATED_WORD.test(word)),
    FLAGS,
  );
  if (values.help === true) return 'help';
  const query = [...words, ...negated].join(' ');
  if (values.db === '') throw new UsageError('--db takes the path of a file');
  const raw = values.raw ?? null;
  if (raw !== null && raw !== 'request' && raw !== 'response') {
    throw new UsageError(`--raw takes request or response, not ${formatJson(raw, 0)}`);
  }
  if (raw !== null && values.exchange === undefined) throw new UsageError('--raw needs --exchange N');
  if (raw !== null && values.json === true)
    throw new UsageError('--raw writes bytes, so it cannot be used with --json');
  if (values.run !== undefined && values.exchange !== undefined) {
    throw new UsageError(
      '--run and --exchange cannot be combined: exchange numbers are unique in the database, so --exchange needs no --run',
    );
  }
  if (values.step !== undefined && (values.run !== undefined || values.exchange !== undefined))
    throw new UsageError('--step cannot be combined with --run or --exchange');
  if (values.student !== undefined && values.step === undefined)
    throw new UsageError('--student requires --step');
  if (values.full === true && values.run === undefined) throw new UsageError('--full requires --run');
  if (values.by !== undefined) {
    for (const name of [
      'run',
      'exchange',
      'step',
      'cache',
      'limits',
      'golden',
      'not-golden',
      'limit',
      'full',
    ] as const)
      if (values[name] !== undefined) throw new UsageError(`--by and --${name} cannot be combined`);
  }
  if (values.export !== undefined)
    for (const name of ['run', 'exchange', 'step', 'cache', 'limits', 'by', 'json', 'full'] as const)
      if (values[name] !== undefined) throw new UsageError(`--export and --${name} cannot be combined`);
  checkTogether(values);
  // A page that another flag selects takes no query.
  const selected = values.run ?? values.exchange ?? values.step ?? values.cache ?? values.limits ?? values.by;
  if (selected !== undefined) refuseWords([...words, ...negated]);
  return {
    db: values.db,
    query,
    run: values.run ?? null,
    exchange: values.exchange === undefined ? null : readExchangeId('--exchange', values.exchange),
    step: values.step === undefined ? null : readExchangeId('--step', values.step),
    student: values.student ?? null,
    raw,
    json: values.json === true,
    full: values.full === true,
    cache: values.cache === true,
    limits: values.limits === true,
    format: readFormat(values.export),
    by: readDimension(values.by),
    ...(values.since === undefined ? {} : { since_ms: readSince(values.since, nowMs) }),
    ...(values.golden === true ? { golden: true } : {}),
    ...(values['not-golden'] === true ? { golden: false } : {}),
    ...(values.limit === undefined ? {} : { limit: readLimit(values.limit) }),
  };
}

/** Checks the combination of flags. @throws UsageError for flags that do not go together */
function checkTogether(values: FlagValues<typeof FLAGS>): void {
  if (values.limits === true) {
    for (const name of [
      'run',
      'exchange',
      'step',
      'cache',
      'since',
      'golden',
      'not-golden',
      'limit',
      'full',
    ] as const)
      if (values[name] !== undefined) throw new UsageError(`--limits and --${name} cannot be combined`);
  }
  if (values.cache === true) {
    for (const name of ['exchange', 'step', 'golden', 'not-golden', 'limit', 'full'] as const)
      if (values[name] !== undefined) throw new UsageError(`--cache and --${name} cannot be combined`);
  }
  if (values.golden === true && values['not-golden'] === true)
    throw new UsageError('--golden and --not-golden together match no run');
  for (const name of ['since', 'golden', 'not-golden', 'limit'] as const) {
    const isOfOne = values.run ?? values.exchange ?? values.step;
    if (values[name] !== undefined && isOfOne !== undefined)
      throw new UsageError(
        `--${name} chooses among runs: it cannot be combined with --run, --exchange or --step`,
      );
  }
}

/** Reads the format of `--export`; null without the flag. @throws UsageError for an unknown format */
function readFormat(text: string | undefined): InspectExport | null {
  if (text === undefined) return null;
  const found = FORMATS.find((name) => name === text);
  if (found !== undefined) return found;
  throw new UsageError(`--export takes ${FORMATS.join(', ')}, not ${formatJson(text, 0)}`);
}

function readDimension(text: string | undefined): FigureDimension | null {
  if (text === undefined) return null;
  const found = FIGURE_DIMENSIONS.find((name) => name === text);
  if (found !== undefined) return found;
  throw new UsageError(`--by takes ${FIGURE_DIMENSIONS.join(', ')}, not ${formatJson(text, 0)}`);
}

function readExchangeId(flag: string, text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) {
    throw new UsageError(`${flag} takes a number from 1 on, not ${formatJson(text, 0)}`);
  }
  return Number(text);
}

function readLimit(text: string): number {
  if (!/^\d{1,9}$/.test(text))
    throw new UsageError(`--limit takes a number of runs, 0 for all, not ${formatJson(text, 0)}`);
  return text === '0' ? Number.POSITIVE_INFINITY : Number(text);
}
