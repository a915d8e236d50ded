/**
 * `understudy patterns import|export`: patterns as JSON lines, directly on the database. Imports are queued in the
 * database for the pattern store, which embeds them, merges near-duplicates and masks secrets. It does so within
 * seconds while the service runs, otherwise at the next start. Main thread.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream, statSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { loadConfig } from '../config.ts';
import { PATTERNS_PER_REQUEST } from '../contract/limits.ts';
import { newPattern } from '../contract/patterns.ts';
import {
  cleanPattern,
  type NewPattern,
  PATTERNS_PER_SCOPE,
  type PatternScope,
  TIERS,
  type Tier,
} from '../domain/pattern.ts';
import { DEFAULT_ORG, DEFAULT_PROJECT } from '../domain/tenant.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import { isThere, namePlace } from '../std/file-place.ts';
import { TableAccounts } from '../storage/accounts/table-accounts.ts';
import { databasePaths, openMain, refuseShared } from '../storage/lmdb/stores.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { OPERATOR } from './keys.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Imports patterns from a file into DATA_DIR, or exports them to a file. A running service takes imports within seconds, a
stopped one at its next start. The service merges near-duplicates and masks keys in texts.

Usage: understudy patterns import --tier TIER [--org ORG] [--project PROJECT] FILE
       understudy patterns export --tier TIER [--org ORG] [--project PROJECT] FILE

  --tier TIER         e1: one project's, e2: an organization's commons, e3: universal
  --org ORG           for e1 and e2; default: "default"
  --project PROJECT   for e1; default: "default"
  FILE                one JSON object per line: situation, dead_ends, unlock and, if known, model, failure_type; for
                      export, - is standard output

Examples:
  understudy patterns export --tier e2 --org acme lessons.jsonl
  understudy patterns import --tier e3 lessons.jsonl

Exit status: 0 done, 1 failed (no such file or database, a line that is not a pattern), 2 wrong use.
`;

/** Maximum number of characters of a line. The longest pattern has fewer. */
const LINE_CHARACTERS = 1_000_000;

/** Runs `understudy patterns`. @returns the exit status */
export async function runPatterns(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, { tier: 'text', org: 'text', project: 'text' });
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action, file, ...more] = words;
  if (action !== 'import' && action !== 'export') throw new UsageError('name the action: import or export');
  if (file === undefined || file === '')
    throw new UsageError(`name one file: understudy patterns ${action} FILE`);
  refuseWords(more);
  const scope = readScope(values);
  const { data_dir, data_key } = loadConfig({ listener: 'api' });
  const paths = databasePaths(data_dir, data_key);
  const path = paths.main;
  refuseShared(data_dir);
  refuseHalfRestored(path);
  if (action === 'export' && !isThere(path)) {
    io.err(
      `understudy: there is no database ${path}: start the service first, or set DATA_DIR to the folder of the database\n`,
    );
    return EXIT.failed;
  }
  if (isFolder(file)) {
    io.err(`understudy: ${makeHarmlessLine(file)} is a folder: name a file\n`);
    return EXIT.failed;
  }
  const main = openMain(paths);
  const accounts = new TableAccounts(main);
  try {
    return action === 'import'
      ? await importFile(accounts, scope, file, io)
      : await exportFile(accounts, scope, file, io);
  } finally {
    await main.close();
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

async function importFile(accounts: Accounts, scope: PatternScope, file: string, io: CliIo): Promise<number> {
  if (!isThere(file)) {
    io.err(`understudy: there is no file ${makeHarmlessLine(file)}\n`);
    return EXIT.failed;
  }
  const patterns: NewPattern[] = [];
  let number = 0;
  for await (const line of readLines(file)) {
    number++;
    if (line.trim() === '') continue;
    const pattern = readLine(line);
    const fault =
      typeof pattern === 'string'
        ? pattern
        : patterns.length === PATTERNS_PER_SCOPE
          ? `more than ${PATTERNS_PER_SCOPE} patterns`
          : null;
    if (fault !== null || typeof pattern === 'string') {
      io.err(`understudy: line ${number}: ${makeHarmlessLine(fault ?? '')}; nothing was imported\n`);
      return EXIT.failed;
    }
    patterns.push(pattern);
  }
  await accounts.transact((tx) => {
    for (let at = 0; at < patterns.length; at += PATTERNS_PER_REQUEST)
      tx.patterns.addImport(scope, patterns.slice(at, at + PATTERNS_PER_REQUEST));
    const { tier, org_id, project_id } = scope;
    // Universal patterns belong to no organization.
    if (patterns.length > 0 && org_id !== '')
      tx.audit.add(OPERATOR, Date.now(), {
        org_id,
        action: 'patterns.import',
        target: tier === 'e1' ? project_id : org_id,
        after: { tier, patterns: patterns.length },
      });
  });
  await io.out(`Queued for the pattern store: ${countOf(patterns.length, 'pattern')}.\n`);
  return EXIT.done;
}

/**
 * Yields the lines of a file. A line that is too long may be endless, as on a device. So its beginning is yielded, and
 * reading stops.
 */
async function* readLines(file: string): AsyncGenerator<string> {
  let held = '';
  for await (const chunk of createReadStream(file, 'utf8')) {
    const lines = `${held}${chunk}`.split(/\r?\n/);
    held = lines.pop()!;
    yield* lines;
    if (held.length > LINE_CHARACTERS) break;
  }
  if (held !== '') yield held;
}

/** Reads a line of the file. @returns the pattern, or what is wrong with the line */
function readLine(line: string): NewPattern | string {
  if (line.length > LINE_CHARACTERS) return `the line is longer than ${LINE_CHARACTERS} characters`;
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    return 'the line is not JSON';
  }
  const result = newPattern.safeParse(parsed);
  if (!result.success) {
    const [issue] = result.error.issues;
    return `${issue!.path.join('.') || 'the line'}: ${issue!.message}`;
  }
  const { situation, dead_ends, unlock, model, failure_type } = result.data;
  return cleanPattern({
    situation,
    dead_ends,
    unlock,
    model: model ?? '',
    failure_type: failure_type ?? '',
  });
}

async function exportFile(accounts: Accounts, scope: PatternScope, file: string, io: CliIo): Promise<number> {
  const target = file === '-' ? null : createWriteStream(file);
  const refuse = (thrown: unknown): never => {
    throw namePlace(thrown, file);
  };
  let count = 0;
  for (const stored of accounts.patterns.list(scope, 'oldest', null)) {
    // The origin is left out: another store has different sources.
    const { sources: _, org_id: _org, project_id: _project, ...pattern } = stored;
    const line = `${formatJson(pattern, 0)}\n`;
    count++;
    if (target === null) await io.out(line);
    else if (!target.write(line)) await once(target, 'drain').catch(refuse);
  }
  if (target !== null) {
    target.end();
    await finished(target).catch(refuse);
    await io.out(`Written to ${makeHarmlessLine(file)}: ${countOf(count, 'pattern')}.\n`);
  }
  return EXIT.done;
}

type Values = Readonly<Record<string, string | boolean | undefined>>;

function readScope(values: Values): PatternScope {
  const tier = TIERS.find((known) => known === values.tier) as Tier | undefined;
  if (tier === undefined) throw new UsageError(`--tier takes one of ${TIERS.join(', ')}`);
  const isIn = (...tiers: Tier[]) => tiers.includes(tier);
  if (values.org !== undefined && !isIn('e1', 'e2')) throw new UsageError('--org requires --tier e1 or e2');
  if (values.project !== undefined && !isIn('e1')) throw new UsageError('--project requires --tier e1');
  return {
    tier,
    org_id: isIn('e1', 'e2') ? readName(values.org, '--org', DEFAULT_ORG) : '',
    project_id: isIn('e1') ? readName(values.project, '--project', DEFAULT_PROJECT) : '',
  };
}

function readName(value: string | boolean | undefined, option: string, unset: string): string {
  if (value === undefined) return unset;
  const name = String(value);
  if (name === '' || name.length > ID_CHARACTERS || !name.isWellFormed())
    throw new UsageError(`${option} takes 1 to ${ID_CHARACTERS} characters`);
  return name;
}
