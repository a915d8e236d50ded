/**
 * `understudy student`: what an operator does with the student in a directory. Lists and shows its versions, has one serve,
 * puts one back, stops agents and lets them go on. A gateway that runs follows within seconds. Main thread.
 */

import { join } from 'node:path';
import { percent } from '../analysis/distill.ts';
import { loadConfig } from '../config.ts';
import type { StudentReport } from '../domain/student-report.ts';
import { countOf } from '../std/count-of.ts';
import { graftAgent } from '../student/agent-graft.ts';
import { type LedgerCopy, listLedger, readLedgerFile, sumLedger } from '../student/day-ledger.ts';
import {
  listVersions,
  publishStudent,
  readStudentDirectory,
  readStudentManifest,
  readStudentVersion,
  StudentDirectoryError,
  serveVersion,
} from '../student/directory.ts';
import type { WatchedAgentReport } from '../student/model/drift-watch.ts';
import type { LedgerRow } from '../student/model/ledger-row.ts';
import type { StudentManifest } from '../student/model/manifest.ts';
import { kindByTools } from '../student/model/service-evidence.ts';
import {
  type Order,
  type Orders,
  OrdersError,
  orderShare,
  readOrders,
  resume,
  suspend,
  writeOrders,
} from '../student/orders.ts';
import { describeAgents, describeVersion } from '../student/student-report.ts';
import { reportWatched } from '../student/student-watch.ts';
import { readWatchFile } from '../student/watch-file.ts';
import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { choosePalette, formatJson, layOutTable, makeHarmlessLine, type Palette } from './terminal-text.ts';

const HELP = `Shows and steers the student in a directory that distill or loop has made. A gateway that runs follows within seconds.

Usage: understudy student list                               the versions that are kept
       understudy student show [VERSION]                     a version's figures, and what becomes of each agent
       understudy student ledger [--days]                    what it served, got wrong and saved, by agent, or by day too
       understudy student publish [VERSION] [--share S]      has it serve; the newest when none is named
       understudy student rollback [--to VERSION]            has an earlier version serve, and holds it there
       understudy student rollback AGENT [--to VERSION]      one agent as that version had it, the others as they are
       understudy student suspend AGENT [--kind KIND]        the upstream serves it, until it is resumed
       understudy student resume AGENT [--kind KIND]         takes that back, and what audits have suspended

  --dir DIR       the directory; SVC_DISTILL_DIR when not given
  --share S       of the runs, 0 to 1: the others go to the upstream. A run stays where it is. 1 when not given
  --hold          with publish: rounds keep what they make, and it does not serve until you publish it
  --to VERSION    the version before the one that serves, when not given
  --kind KIND     one kind of answer, as show names it: the names of the tools called, or text
  --all           with suspend and resume, in place of AGENT: every agent
  --json          as JSON

AGENT is a name that show prints, or so much of its beginning as no other has. After a rollback rounds go on, and keep
what they make: publish ends the hold. To stop the whole student: suspend --all, or remove DIR/manifest.json.

Examples:
  understudy student publish 7 --share 0.1
  understudy student rollback
  understudy student suspend 3f9a --kind open_dispute

Exit status: 0 done, 1 failed, 2 wrong use.
`;

const FLAGS = {
  dir: 'text',
  share: 'text',
  hold: 'switch',
  to: 'text',
  kind: 'text',
  all: 'switch',
  days: 'switch',
  json: 'switch',
} as const;

type Values = Readonly<Record<string, string | boolean | undefined>>;

/** Which flags go with which action, besides those that all have. */
const ACTIONS: Readonly<Record<string, readonly (keyof typeof FLAGS)[]>> = {
  list: [],
  show: [],
  ledger: ['days'],
  publish: ['share', 'hold'],
  rollback: ['to'],
  suspend: ['kind', 'all'],
  resume: ['kind', 'all'],
};

/** What a command works on. */
interface Place {
  directory: string;
  /** Where a gateway of this DATA_DIR keeps how right the student has been. */
  watch_path: string;
  is_json: boolean;
  io: CliIo;
}

/**
 * Runs the command.
 * @param argv what follows `understudy student`
 * @returns the exit status; failures are told on `io.err`
 * @throws UsageError on wrong use
 */
export async function runStudent(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, FLAGS);
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action = '', ...rest] = words;
  const allowed = Object.hasOwn(ACTIONS, action) ? ACTIONS[action]! : null;
  if (allowed === null) throw new UsageError(`say what to do: ${Object.keys(ACTIONS).join(', ')}`);
  for (const name of Object.keys(values) as (keyof typeof FLAGS)[])
    if (name !== 'dir' && name !== 'json' && !allowed.includes(name))
      throw new UsageError(`--${name} goes with ${listActions(name)}`);
  refuseWords(rest.slice(action === 'list' || action === 'ledger' ? 0 : 1));
  if (action === 'ledger') return showLedger(values, io);
  const place = findPlace(values, io);
  try {
    switch (action) {
      case 'list':
        return await listAll(place);
      case 'show':
        return await showVersion(place, readVersion(rest[0]));
      case 'publish':
        return await publishVersion(place, readVersion(rest[0]), values);
      case 'rollback':
        return await rollBack(place, rest[0] ?? null, readVersion(values.to));
      default:
        return await order(place, action as 'suspend' | 'resume', rest[0] ?? null, values);
    }
  } catch (error) {
    if (!isExpected(error)) throw error;
    io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
    return EXIT.failed;
  }
}

/** What cannot be done, in one line. */
class OrderError extends Error {}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof StudentDirectoryError || error instanceof OrderError || error instanceof OrdersError
  );
}

function listActions(flag: keyof typeof FLAGS): string {
  return Object.keys(ACTIONS)
    .filter((action) => ACTIONS[action]!.includes(flag))
    .join(' and ');
}

function findPlace(values: Values, io: CliIo): Place {
  const config = loadConfig({ listener: 'gateway' });
  const directory = values.dir ?? config.relegation?.directory;
  if (typeof directory !== 'string' || directory === '')
    throw new UsageError('say which directory: --dir DIR, or SVC_DISTILL_DIR');
  const watch_path = config.relegation?.watch_path ?? join(config.data_dir, 'student-watch.json');
  return { directory, watch_path, is_json: values.json === true, io };
}

/** @returns null when none is named */
function readVersion(word: string | boolean | undefined): number | null {
  if (word === undefined) return null;
  const version = /^v?(\d{1,9})$/.exec(String(word))?.[1];
  if (version === undefined || Number(version) < 1)
    throw new UsageError('a version is a whole number from 1');
  return Number(version);
}

function readShare(word: string | boolean | undefined): number {
  if (word === undefined) return 1;
  const share = /^\d*\.?\d+$/.test(String(word)) ? Number(word) : Number.NaN;
  if (!(share >= 0 && share <= 1)) throw new UsageError('--share takes a number from 0 to 1');
  return share;
}

/** The manifest of the version that serves; null: none does. */
async function findServing(directory: string): Promise<StudentManifest | null> {
  try {
    return await readStudentManifest(directory);
  } catch (error) {
    if (error instanceof StudentDirectoryError && error.code === 'missing') return null;
    throw error;
  }
}

async function listAll(place: Place): Promise<number> {
  const { directory, io } = place;
  const versions = await listVersions(directory);
  let damage: StudentDirectoryError | null = null;
  const serving = await findServing(directory).catch((error: unknown) => {
    if (!(error instanceof StudentDirectoryError)) throw error;
    damage = error;
    return null;
  });
  // Without versions there is nothing to show beside it.
  if (damage !== null && versions.length === 0) throw damage;
  const orders = await readOrders(place.directory);
  const told = versions.map((kept) =>
    withState(describeVersion(kept, serving?.version ?? null, orders), serving?.version ?? null),
  );
  if (place.is_json) {
    await io.out(`${formatJson({ directory, held: orders.held, versions: told }, 2)}\n`);
    return tellDamage(damage, io);
  }
  if (told.length === 0) {
    await io.out(`No student in ${makeHarmlessLine(directory)} yet: understudy loop --once makes one.\n`);
    return EXIT.done;
  }
  const palette = choosePalette(io.has_color);
  const rows = told.map((its) => [
    { text: String(its.version) },
    { text: its.state, ...(its.state.startsWith('serves') ? { paint: palette.good } : {}) },
    { text: its.made_at ?? '-' },
    { text: its.agents === null ? '-' : String(its.agents) },
    { text: its.served === null ? '-' : `${its.served} of ${its.steps}` },
    { text: its.errors === null ? '-' : String(its.errors) },
  ]);
  await io.out(
    layOutTable(
      [
        { title: 'VERSION', align: 'right' },
        { title: 'STATE', align: 'left' },
        { title: 'MADE', align: 'left' },
        { title: 'AGENTS', align: 'right' },
        { title: 'SERVED', align: 'right' },
        { title: 'WRONG', align: 'right' },
      ],
      rows,
      Number.POSITIVE_INFINITY,
      palette,
    ),
  );
  if (orders.held)
    await io.out('Held: rounds keep what they make, and it does not serve until you publish it.\n');
  return tellDamage(damage, io);
}

/** What serves cannot be read; a version that is kept can be published again. */
function tellDamage(damage: StudentDirectoryError | null, io: CliIo): number {
  if (damage === null) return EXIT.done;
  io.err(
    `understudy: ${makeHarmlessLine(damage.message)}\nTo have a version serve that is kept: understudy student publish VERSION\n`,
  );
  return EXIT.failed;
}

/** A version as the report has it, and what becomes of it in a word. */
function withState(its: StudentReport['versions'][number], serving: number | null) {
  const serves = its.share < 1 ? `serves ${percent(its.share)}` : 'serves';
  const state = its.made_at === null ? 'unreadable' : its.version === serving ? serves : 'kept';
  return { ...its, state };
}

async function showVersion(place: Place, wanted: number | null): Promise<number> {
  const { directory, io } = place;
  const serving = await findServing(directory);
  const version = wanted ?? serving?.version;
  if (version === undefined)
    throw new OrderError(`${directory}: nothing serves; see understudy student list`);
  const { manifest } =
    version === serving?.version ? { manifest: serving } : await readKept(directory, version);
  const orders = await readOrders(place.directory);
  const watched = await readWatched(place, orders);
  const agents = describeAgents(manifest, orders, watched);
  const kept = { version, manifest, problem: '' };
  const described = withState(
    describeVersion(kept, serving?.version ?? null, orders),
    serving?.version ?? null,
  );
  if (place.is_json) {
    const { measured, golden, student } = manifest;
    const audited = agents.map((its) => ({
      ...its,
      audited: watched.find(({ agent }) => agent === its.agent)?.kinds ?? [],
    }));
    await io.out(
      `${formatJson({ directory, held: orders.held, ...described, student, measured, golden, agents: audited }, 2)}\n`,
    );
    return EXIT.done;
  }
  const palette = choosePalette(io.has_color);
  const { measured } = manifest;
  await io.out(
    `Version ${version} (${described.state}), made ${manifest.made_at}, ${
      manifest.valid_until === undefined ? 'does not expire' : `valid until ${manifest.valid_until}`
    }\n` +
      `Served ${measured.served} of ${countOf(measured.steps, 'step')} kept apart, ${measured.in_a_row.served} of them in a row; ${measured.errors} wrong\n\n` +
      layOutAgents(agents, palette),
  );
  for (const { agent, kinds } of watched)
    for (const { kind, state, compared, wrong } of kinds)
      if (state === 'suspended' || wrong > 0)
        await io.out(
          `${makeHarmlessLine(agent)}: ${makeHarmlessLine(kind)} is ${state}, ${wrong} of ${compared} audited answers wrong\n`,
        );
  return EXIT.done;
}

async function readKept(directory: string, version: number): Promise<{ manifest: StudentManifest }> {
  const kept = (await listVersions(directory)).find((its) => its.version === version);
  if (kept === undefined)
    throw new OrderError(`${directory}: keeps no version ${version}; see understudy student list`);
  if (kept.manifest === null) throw new OrderError(kept.problem);
  return { manifest: kept.manifest };
}

/** What the gateway of this DATA_DIR knows; nothing where it has never run. */
async function readWatched({ watch_path, io }: Place, orders: Orders): Promise<WatchedAgentReport[]> {
  try {
    return reportWatched(await readWatchFile(watch_path), orders);
  } catch (error) {
    io.err(`warning: what audits have found cannot be read: ${makeHarmlessLine((error as Error).message)}\n`);
    return reportWatched(null, orders);
  }
}

function layOutAgents(agents: StudentReport['agents'], palette: Palette): string {
  if (agents.length === 0) return 'Its agents are not listed.\n';
  return layOutTable(
    [
      { title: 'AGENT', align: 'left' },
      { title: 'STATE', align: 'left' },
      { title: 'RUNS', align: 'right' },
      { title: 'SERVED', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: 'AUDITED', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: 'TOOLS', align: 'left' },
    ],
    agents.map((its) => [
      { text: makeHarmlessLine(its.agent) },
      {
        text: its.suspended_by === null ? its.state.replace('_', ' ') : `${its.state} (${its.suspended_by})`,
        ...(its.state === 'serving' ? {} : { paint: palette.bad }),
      },
      { text: String(its.runs) },
      { text: `${its.measured.served} of ${its.measured.steps}` },
      { text: String(its.measured.errors) },
      { text: String(its.compared) },
      { text: String(its.wrong) },
      { text: makeHarmlessLine(its.tools.join(', ')) },
    ]),
    Number.POSITIVE_INFINITY,
    palette,
  );
}

/** What the gateway of this DATA_DIR has counted; no directory is needed. */
async function showLedger(values: Values, io: CliIo): Promise<number> {
  const config = loadConfig({ listener: 'gateway' });
  const path = config.relegation?.ledger_path ?? join(config.data_dir, 'student-ledger.json');
  let kept: LedgerCopy;
  try {
    kept = (await readLedgerFile(path)) ?? [];
  } catch (error) {
    io.err(`understudy: ${makeHarmlessLine((error as Error).message)}\n`);
    return EXIT.failed;
  }
  const rows = values.days === true ? listLedger(kept) : sumLedger(kept);
  if (values.json === true) {
    await io.out(`${formatJson(rows, 2)}\n`);
    return EXIT.done;
  }
  if (rows.length === 0) {
    await io.out('No student has served anything here yet.\n');
    return EXIT.done;
  }
  const palette = choosePalette(io.has_color);
  await io.out(
    layOutTable(
      [
        { title: values.days === true ? 'DAY' : 'SINCE', align: 'left' },
        { title: 'AGENT', align: 'left' },
        { title: 'SERVED', align: 'right' },
        { title: 'AUDITED', align: 'right' },
        { title: 'WRONG', align: 'right' },
        { title: '95 % BETWEEN', align: 'left' },
        { title: 'LATE', align: 'right' },
        { title: 'SAVED', align: 'right' },
      ],
      rows.map((its) => [
        { text: its.day },
        { text: makeHarmlessLine(its.agent) },
        { text: String(its.served) },
        { text: String(its.compared) },
        { text: String(its.wrong), ...(its.wrong > 0 ? { paint: palette.bad } : {}) },
        { text: describeInterval(its) },
        { text: String(its.late) },
        {
          text: its.saved_usd === null ? '-' : describeDollars(its.saved_usd),
          ...((its.saved_usd ?? 0) < 0 ? { paint: palette.bad } : {}),
        },
      ]),
      Number.POSITIVE_INFINITY,
      palette,
    ),
  );
  for (const { day, agent, saved_usd } of rows)
    if (saved_usd !== null && saved_usd < 0)
      await io.out(
        `${makeHarmlessLine(agent)} (${day}) cost ${describeDollars(-saved_usd)} more than it saved: late take-overs paid for cold caches, or its service is dear\n`,
      );
  return EXIT.done;
}

function describeInterval({ wrong_at_least: low, wrong_at_most: high }: LedgerRow): string {
  return low === null || high === null ? '-' : `${percent(low)} and ${percent(high)}`;
}

function describeDollars(usd: number): string {
  return `${usd < 0 ? '-' : ''}$${Math.abs(usd).toFixed(Math.abs(usd) < 1 ? 4 : 2)}`;
}

async function publishVersion(place: Place, wanted: number | null, values: Values): Promise<number> {
  const { directory } = place;
  const share = readShare(values.share);
  const version =
    wanted ?? (await listVersions(directory)).find(({ manifest }) => manifest !== null)?.version;
  if (version === undefined)
    throw new OrderError(`${directory}: no version is kept; understudy loop --once makes one`);
  await readKept(directory, version);
  await changeOrders(place, (orders) => ({
    ...orderShare(orders, version, share),
    held: values.hold === true,
  }));
  await serveVersion(directory, version);
  const of = share < 1 ? ` for ${percent(share)} of the runs` : '';
  return tell(place, { version, share }, `Version ${version} serves${of}`);
}

async function rollBack(place: Place, word: string | null, to: number | null): Promise<number> {
  const { directory } = place;
  const serving = await findServing(directory).catch(() => null);
  const versions = await listVersions(directory);
  const version =
    to ??
    versions.find((its) => its.manifest !== null && (serving === null || its.version < serving.version))
      ?.version;
  if (version === undefined) throw new OrderError(`${directory}: no earlier version is kept`);
  if (version === serving?.version) throw new OrderError(`version ${version} serves already`);
  await readKept(directory, version);
  if (word !== null) return graftBack(place, word, version);
  await changeOrders(place, (orders) => ({ ...orderShare(orders, version, 1), held: true }));
  await serveVersion(directory, version);
  return tell(
    place,
    { version, held: true },
    `Version ${version} serves, and is held: rounds keep what they make until you publish it (understudy student publish)`,
  );
}

async function graftBack(place: Place, word: string, from: number): Promise<number> {
  const { directory } = place;
  const student = await readStudentDirectory(directory);
  const other = await readStudentVersion(directory, from);
  const known = new Set(
    [...(other.manifest.coverage.agents ?? []), ...(student.manifest.coverage.agents ?? [])].map(
      ({ agent }) => agent,
    ),
  );
  const agent = findAgent(word, known);
  const grafted = graftAgent(student, other, agent);
  if (grafted === null) throw new OrderError(`version ${from} does not know the agent ${agent}`);
  const { version } = await publishStudent(directory, grafted.draft, grafted.model, {
    before: async () => changeOrders(place, (orders) => ({ ...orders, held: true })),
  });
  return tell(
    place,
    { version, agent, from, held: true },
    `Version ${version} serves, and is held: ${agent} as in version ${from}, the others as in version ${student.manifest.version}`,
  );
}

async function order(
  place: Place,
  action: 'suspend' | 'resume',
  word: string | null,
  values: Values,
): Promise<number> {
  if ((word === null) === (values.all !== true))
    throw new UsageError(`say which: understudy student ${action} AGENT, or --all`);
  // An order in a mistyped directory would stop nothing. What list says of such a one is said here.
  await listVersions(place.directory);
  const kind = values.kind === undefined ? null : kindByTools(String(values.kind)).slice(0, 300);
  const agent = word === null ? null : findAgent(word, await listAgents(place));
  const wanted: Order = { agent, kind, at_ms: Date.now() };
  try {
    await changeOrders(place, (orders) =>
      action === 'suspend' ? suspend(orders, wanted) : resume(orders, wanted),
    );
  } catch (error) {
    if (error instanceof RangeError) throw new OrderError(error.message);
    throw error;
  }
  const what = `${kind === null ? '' : `${kind} of `}${agent ?? 'every agent'}`;
  const then =
    action === 'suspend'
      ? 'is suspended: the upstream serves it'
      : 'may be served again, and is audited first';
  return tell(place, { action, agent, kind }, `${what} ${then}`);
}

/** Agents of any version that is kept, and those that the gateway or an order names. */
async function listAgents(place: Place): Promise<Set<string>> {
  const orders = await readOrders(place.directory);
  const versions = await listVersions(place.directory);
  const listed = versions.flatMap(
    ({ manifest }) => manifest?.coverage.agents?.map(({ agent }) => agent) ?? [],
  );
  const watched = await readWatched(place, orders);
  return new Set([...listed, ...watched.map(({ agent }) => agent)]);
}

/** @throws OrderError when none, or more than one, begins so */
function findAgent(word: string, known: ReadonlySet<string>): string {
  if (known.has(word)) return word;
  const meant = [...known].filter((agent) => agent.startsWith(word));
  if (meant.length === 1) return meant[0]!;
  const why = meant.length === 0 ? 'there is no agent' : `${meant.length} agents begin with`;
  throw new OrderError(`${why} ${word.slice(0, 100)}; see understudy student show`);
}

async function changeOrders(place: Place, change: (orders: Orders) => Orders): Promise<void> {
  await writeOrders(place.directory, change(await readOrders(place.directory)));
}

async function tell({ is_json, directory, io }: Place, facts: object, words: string): Promise<number> {
  await io.out(is_json ? `${formatJson({ directory, ...facts }, 2)}\n` : `${makeHarmlessLine(words)}\n`);
  return EXIT.done;
}
