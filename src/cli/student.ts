/**
 * `understudy student`: an operator's commands for the student in a directory. Lists and shows its versions, publishes
 * one, rolls back, suspends and resumes agents. A running gateway follows within seconds. Main thread.
 */

import { join } from 'node:path';
import { loadConfig } from '../config.ts';
import { cleanAgentName } from '../domain/agent-name.ts';
import type { StudentReport } from '../domain/student-report.ts';
import { countOf } from '../std/count-of.ts';
import { graftAgent } from '../student/agent-graft.ts';
import { type AgentNames, nameAgent, readAgentNames } from '../student/agent-names.ts';
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
import { percent } from '../teaching/taught-student.ts';
import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { showLedger } from './student-ledger.ts';
import { isSharingFailure, runSharing } from './student-sharing.ts';
import { choosePalette, formatJson, layOutTable, makeHarmlessLine, type Palette } from './terminal-text.ts';

const HELP = `Shows and controls the student in a directory that distill or loop has made. A running gateway follows within seconds.

Usage: understudy student list                               the versions that are kept
       understudy student show [VERSION]                     a version's figures, and each agent variant: state, name, what is refused and why
       understudy student ledger [--days]                    answers served, wrong answers and savings, by agent variant, also by day
       understudy student publish [VERSION] [--share S]      puts a version into service; default: the newest
       understudy student rollback [--to VERSION]            returns to an earlier version, and stays there
       understudy student rollback AGENT [--to VERSION]      returns only this agent variant to that version
       understudy student suspend AGENT [--kind KIND]        sends its requests to the upstream until resume
       understudy student resume AGENT [--kind KIND]         undoes a suspension, even one by an audit
       understudy student rename AGENT [NAME]                names an agent variant, for people; without NAME removes the name
       understudy student share --place PLACE                sends the serving version and your orders to PLACE until a signal comes
       understudy student follow --place PLACE               makes DIR serve the student in PLACE until a signal comes

  --dir DIR       the directory; default: SVC_DISTILL_DIR
  --share S       share of the runs to serve, 0 to 1; default 1. Other runs go to the upstream; a run does not switch
  --hold          with publish: later rounds store new versions but do not publish them; you do
  --to VERSION    the version to return to; default: the one before the serving version
  --kind KIND     one kind of answer, as show names it: the names of the tools called, or text
  --all           with suspend and resume, in place of AGENT: every agent variant
  --place PLACE   with share and follow: a folder, or a bucket as in backup --help. One DIR shares, any number follow
  --json          as JSON; with share and follow, a line for each change

AGENT is the id of an agent variant as show prints it, or a unique beginning of the id, or its name. After a rollback, rounds
store new versions but do not publish them, until you use publish. To stop the whole student: suspend --all, or remove
DIR/manifest.json.

Examples:
  understudy student publish 7 --share 0.1
  understudy student rollback
  understudy student suspend 3f9a --kind open_dispute
  understudy student rename 3f9a 'Support desk'

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
  place: 'text',
  json: 'switch',
} as const;

type Values = Readonly<Record<string, string | boolean | undefined>>;

/** The flags of each action, besides the common ones. */
const ACTIONS: Readonly<Record<string, readonly (keyof typeof FLAGS)[]>> = {
  list: [],
  show: [],
  ledger: ['days'],
  publish: ['share', 'hold'],
  rollback: ['to'],
  suspend: ['kind', 'all'],
  resume: ['kind', 'all'],
  rename: [],
  share: ['place'],
  follow: ['place'],
};

/** The student on which a command works. */
interface Place {
  directory: string;
  /** Where a gateway of this DATA_DIR keeps the audits' results. */
  watch_path: string;
  is_json: boolean;
  io: CliIo;
}

/**
 * Runs the command.
 * @param argv arguments after `understudy student`
 * @returns the exit status; failures are reported on `io.err`
 * @throws UsageError for invalid arguments
 */
export async function runStudent(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, FLAGS);
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action = '', ...rest] = words;
  const allowed = Object.hasOwn(ACTIONS, action) ? ACTIONS[action]! : null;
  if (allowed === null) throw new UsageError(`name the action: ${Object.keys(ACTIONS).join(', ')}`);
  for (const name of Object.keys(values) as (keyof typeof FLAGS)[])
    if (name !== 'dir' && name !== 'json' && !allowed.includes(name))
      throw new UsageError(`--${name} requires ${listActions(name)}`);
  refuseWords(rest.slice(countWords(action)));
  if (action === 'ledger') return showLedger(readLedgerFlags(values), io);
  const place = findPlace(values, io);
  try {
    switch (action) {
      case 'share':
      case 'follow':
        return await share(place, action, values.place);
      case 'list':
        return await listAll(place);
      case 'show':
        return await showVersion(place, readVersion(rest[0]));
      case 'publish':
        return await publishVersion(place, readVersion(rest[0]), values);
      case 'rename':
        return await rename(place, rest[0], rest[1] ?? null);
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

/** The number of words that an action takes. */
function countWords(action: string): number {
  if (['list', 'ledger', 'share', 'follow'].includes(action)) return 0;
  return action === 'rename' ? 2 : 1;
}

/** Shares or follows the student of a directory until a signal comes. */
async function share(
  { directory, is_json, io }: Place,
  action: 'share' | 'follow',
  place: string | boolean | undefined,
): Promise<number> {
  if (typeof place !== 'string' || place === '')
    throw new UsageError('name the folder or bucket with --place');
  await runSharing({ action, directory, place, is_json }, loadConfig({ listener: 'gateway' }), io);
  return EXIT.done;
}

function readLedgerFlags({ days, json, dir }: Values) {
  return {
    by_day: days === true,
    is_json: json === true,
    directory: typeof dir === 'string' && dir !== '' ? dir : null,
  };
}

/** Why an order is impossible, in one line. */
class OrderError extends Error {}

function isExpected(error: unknown): error is Error {
  return (
    error instanceof StudentDirectoryError ||
    error instanceof OrderError ||
    error instanceof OrdersError ||
    isSharingFailure(error)
  );
}

function listActions(flag: keyof typeof FLAGS): string {
  return Object.keys(ACTIONS)
    .filter((action) => ACTIONS[action]!.includes(flag))
    .join(' or ');
}

function findPlace(values: Values, io: CliIo): Place {
  const config = loadConfig({ listener: 'gateway' });
  const directory = values.dir ?? config.relegation?.directory;
  if (typeof directory !== 'string' || directory === '')
    throw new UsageError('name the directory: --dir DIR, or SVC_DISTILL_DIR');
  const watch_path = config.relegation?.watch_path ?? join(config.data_dir, 'student-watch.json');
  return { directory, watch_path, is_json: values.json === true, io };
}

/** Reads a version's number, such as `7` or `v7`; null if none is named. @throws UsageError for any other word */
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

/** The manifest of the serving version; null if no version serves. */
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
  // If there are no versions, only the damage can be reported.
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
  const rows = told.map((described) => [
    { text: String(described.version) },
    { text: described.state, ...(described.state.startsWith('serves') ? { paint: palette.good } : {}) },
    { text: described.made_at ?? '-' },
    { text: described.agents === null ? '-' : String(described.agents) },
    { text: described.served === null ? '-' : `${described.served} of ${described.steps}` },
    { text: described.errors === null ? '-' : String(described.errors) },
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
    await io.out('Held: rounds store new versions, which do not serve until you publish one.\n');
  return tellDamage(damage, io);
}

/** Reports that the serving version is unreadable, and that a kept version can be published again. */
function tellDamage(damage: StudentDirectoryError | null, io: CliIo): number {
  if (damage === null) return EXIT.done;
  io.err(
    `understudy: ${makeHarmlessLine(damage.message)}\nTo serve a kept version: understudy student publish VERSION\n`,
  );
  return EXIT.failed;
}

/** Adds its state to a version of the report: `serves`, with the share if it is below 1, `kept` or `unreadable`. */
function withState(version: StudentReport['versions'][number], serving: number | null) {
  const serves = version.share < 1 ? `serves ${percent(version.share)}` : 'serves';
  const state = version.made_at === null ? 'unreadable' : version.version === serving ? serves : 'kept';
  return { ...version, state };
}

async function showVersion(place: Place, wanted: number | null): Promise<number> {
  const { directory, io } = place;
  const serving = await findServing(directory);
  const version = wanted ?? serving?.version;
  if (version === undefined)
    throw new OrderError(`${directory}: no version serves; see understudy student list`);
  const { manifest } =
    version === serving?.version ? { manifest: serving } : await readKept(directory, version);
  const orders = await readOrders(place.directory);
  const watched = await readWatched(place, orders);
  const agents = describeAgents(manifest, orders, watched, await readNames(place));
  const kept = { version, manifest, problem: '' };
  const described = withState(
    describeVersion(kept, serving?.version ?? null, orders),
    serving?.version ?? null,
  );
  if (place.is_json) {
    const { measured, golden, student } = manifest;
    const audited = agents.map((listed) => ({
      ...listed,
      audited: watched.find(({ agent }) => agent === listed.agent)?.kinds ?? [],
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
      `Served ${measured.served} of ${countOf(measured.steps, 'step')} held out, ${measured.in_a_row.served} of them in a row; ${measured.errors} wrong\n\n` +
      layOutAgents(agents, palette) +
      describeRefusals(agents),
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
  const kept = (await listVersions(directory)).find((candidate) => candidate.version === version);
  if (kept === undefined)
    throw new OrderError(`${directory}: version ${version} is not kept; see understudy student list`);
  if (kept.manifest === null) throw new OrderError(kept.problem);
  return { manifest: kept.manifest };
}

/** Maximum number of kinds of answers of one variant that are named with their reasons. */
const REFUSALS_SHOWN = 20;

/** Why kinds of answers are not served, and what would change that; '': all are served. */
function describeRefusals(agents: StudentReport['agents']): string {
  let text = '';
  for (const { agent, name, kinds } of agents) {
    const refused = kinds.filter(({ refusal }) => refusal !== '');
    if (refused.length === 0) continue;
    text += `\nNot served of ${makeHarmlessLine(name === '' ? agent : `${name} (${agent})`)}:\n`;
    for (const { kind, refusal } of refused.slice(0, REFUSALS_SHOWN))
      text += `  ${makeHarmlessLine(kind)}: ${makeHarmlessLine(refusal)}\n`;
    const more = refused.length - REFUSALS_SHOWN;
    if (more > 0) text += `  and ${countOf(more, 'further kind')}\n`;
  }
  return text;
}

/**
 * What the gateway of this DATA_DIR has recorded about agents. If there is no record, or if it cannot be read (which is
 * reported), only the operator's orders.
 */
async function readWatched({ watch_path, io }: Place, orders: Orders): Promise<WatchedAgentReport[]> {
  try {
    return reportWatched(await readWatchFile(watch_path), orders);
  } catch (error) {
    io.err(`warning: the results of audits cannot be read: ${makeHarmlessLine((error as Error).message)}\n`);
    return reportWatched(null, orders);
  }
}

function layOutAgents(agents: StudentReport['agents'], palette: Palette): string {
  if (agents.length === 0) return 'This version does not list its agent variants.\n';
  return layOutTable(
    [
      { title: 'AGENT', align: 'left' },
      { title: 'STATE', align: 'left' },
      { title: 'RUNS', align: 'right' },
      { title: 'SERVED', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: 'AUDITED', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: 'NAME', align: 'left' },
      { title: 'TOOLS', align: 'left' },
    ],
    agents.map((agent) => [
      { text: makeHarmlessLine(agent.agent) },
      {
        text:
          agent.suspended_by === null
            ? agent.state.replace('_', ' ')
            : `${agent.state} (${agent.suspended_by})`,
        ...(agent.state === 'serving' ? {} : { paint: palette.bad }),
      },
      { text: String(agent.runs) },
      { text: `${agent.measured.served} of ${agent.measured.steps}` },
      { text: String(agent.measured.errors) },
      { text: String(agent.compared) },
      { text: String(agent.wrong) },
      { text: agent.name === '' ? '-' : makeHarmlessLine(agent.name) },
      { text: makeHarmlessLine(agent.tools.join(', ')) },
    ]),
    Number.POSITIVE_INFINITY,
    palette,
  );
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
    versions.find(
      (candidate) => candidate.manifest !== null && (serving === null || candidate.version < serving.version),
    )?.version;
  if (version === undefined) throw new OrderError(`${directory}: no earlier version is kept`);
  if (version === serving?.version) throw new OrderError(`version ${version} serves already`);
  await readKept(directory, version);
  if (word !== null) return graftBack(place, word, version);
  await changeOrders(place, (orders) => ({ ...orderShare(orders, version, 1), held: true }));
  await serveVersion(directory, version);
  return tell(
    place,
    { version, held: true },
    `Version ${version} serves, and is held: rounds store new versions, which do not serve until you publish one (understudy student publish)`,
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
  const agent = await findAgent(place, word, known);
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
    throw new UsageError(`name the agent variant: understudy student ${action} AGENT, or --all`);
  // An order in a mistyped directory would have no effect. Reading its versions reports a directory without a student.
  await listVersions(place.directory);
  const kind = values.kind === undefined ? null : kindByTools(String(values.kind)).slice(0, 300);
  const agent = word === null ? null : await findAgent(place, word, await listAgents(place));
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

async function rename(place: Place, word: string | undefined, wanted: string | null): Promise<number> {
  if (word === undefined)
    throw new UsageError('name the agent variant: understudy student rename AGENT NAME');
  const name = wanted === null ? null : cleanAgentName(wanted);
  if (name === '') throw new UsageError('a name needs a character that can be shown');
  await listVersions(place.directory);
  const agent = await findAgent(place, word, await listAgents(place));
  await nameAgent(place.directory, agent, name).catch((error: unknown) => {
    throw new OrderError((error as Error).message);
  });
  return tell(place, { agent, name }, name === null ? `${agent} has no name` : `${agent} is called ${name}`);
}

/** The operators' names of agent variants; empty, with a warning, if they cannot be read. */
async function readNames({ directory, io }: Place): Promise<AgentNames> {
  try {
    return await readAgentNames(directory);
  } catch (error) {
    io.err(
      `warning: the names of agent variants cannot be read: ${makeHarmlessLine((error as Error).message)}\n`,
    );
    return new Map();
  }
}

/** Agents of every kept version, and those that the gateway or an order names. */
async function listAgents(place: Place): Promise<Set<string>> {
  const orders = await readOrders(place.directory);
  const versions = await listVersions(place.directory);
  const listed = versions.flatMap(
    ({ manifest }) => manifest?.coverage.agents?.map(({ agent }) => agent) ?? [],
  );
  const watched = await readWatched(place, orders);
  return new Set([...listed, ...watched.map(({ agent }) => agent)]);
}

/**
 * Finds the agent variant that a word means: the one with this id, with this name, or with an id that begins with the
 * word, in this order.
 * @throws OrderError if the word means no agent, or more than one
 */
async function findAgent(place: Place, word: string, known: ReadonlySet<string>): Promise<string> {
  if (known.has(word)) return word;
  const names = await readNames(place);
  const named = [...known].filter((agent) => names.get(agent) === word);
  const meant = named.length > 0 ? named : [...known].filter((agent) => agent.startsWith(word));
  if (meant.length === 1) return meant[0]!;
  const several =
    named.length > 0
      ? `${meant.length} agents have the name`
      : `${meant.length} agents have an id that begins with`;
  const why = meant.length === 0 ? 'there is no agent' : several;
  throw new OrderError(`${why} ${word.slice(0, 100)}; see understudy student show`);
}

async function changeOrders(place: Place, change: (orders: Orders) => Orders): Promise<void> {
  await writeOrders(place.directory, change(await readOrders(place.directory)));
}

async function tell({ is_json, directory, io }: Place, facts: object, words: string): Promise<number> {
  await io.out(is_json ? `${formatJson({ directory, ...facts }, 2)}\n` : `${makeHarmlessLine(words)}\n`);
  return EXIT.done;
}
