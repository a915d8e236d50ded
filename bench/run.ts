/**
 * Runs benches: `npm run bench -- SUITE … [options]`. Each suite starts and stops the processes that it needs, prints a
 * report, and stores the figures of a full run in bench/results. See bench/README.md. Own process.
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { FULL, QUICK, runGatewayBench } from './gateway.ts';
import { GATEWAY_PHASES, type GatewayPhase } from './gateway-result.ts';
import { saveResult, takeProvenance } from './results.ts';
import { TARGET_NAMES, type TargetName } from './targets.ts';

const USAGE = `npm run bench -- SUITE … [options]

  gateway            the gateway, compared with itself without capture, node:http, nginx and no proxy
  storage            bytes that a captured exchange takes, compared with gzip
  packing            bytes on the disk under a load that never pauses, compared with those at rest
  cores              gateway, nginx, steps and retrieval with 1, 2, 4, … threads, bound to as many cores; needs taskset
  scale              steps, rows and retrieval: 1 and 2 API boxes over one PostgreSQL, and one box with its own database
  outage             the gateway while the API's shared database is unreachable, and while it is reachable
  start              1, 4 and 16 server threads: processor time of the start, memory, idle processor time
  peers              600 KB and 4 KB through the gateway and through the other proxies that are installed
  steps              scoring a step, compared with a bare JSON echo; long runs; many runs
  retrieve           retrieval from 1,000 to 100,000 patterns, recall compared with the exact index, restart
  findings           findings and live stream: latencies, idle readers, deliveries
  lists              pages of a million runs, at every depth and with filters
  growth             bytes, processor time, backlog and p99 of each list, and which of them grow with the history
  soak               20 minutes of mixed traffic at half speed, while the lists are requested every 8 s
  search             full-text search over 100,000 captured runs, and the cost of its index
  limits             one check of the rate limit
  client             what the client library adds to a step of an agent
  relegation         what the student adds to a step, whether it covers the step or not
  label              what the labelling shim adds to a request

  --quick            coarse figures in less time (gateway: under a minute, without node-http); needs --save to write
  --only A,B         of gateway: ${GATEWAY_PHASES.join(', ')}
  --targets A,B      of gateway: ${TARGET_NAMES.join(', ')}
  --connections N,M  of gateway: instead of 1,32,256
  --bodies N,M       of gateway: bytes each way, instead of 4096,307200
  --rounds N         of gateway and packing
  --seconds N        of packing, a round
  --minutes N        of soak
  --exchanges N,M    of growth: sizes, instead of 20000,100000,300000
  --runs N,M         of growth: sizes, instead of 1000,50000,200000
  --before DIR       of packing and start: another checkout, measured alternately with this one
  --cpu-prof DIR     of gateway: CPU profiles of the gateway's threads, for bench/profile.ts
  --node-flags="F G" of gateway: flags for the Node that runs the gateway with capture
  --save             write bench/results even if something was left out
  --strict           exit with 1 if a goal is missed`;

/**
 * Maximum time of a run; `--minutes` adds its minutes. For a full run with a suite of LONG_SUITES, the maximum is
 * LONG_RUN_LIMIT_MS. A run that takes longer is stopped, with all processes that it started.
 */
const RUN_LIMIT_MS = 25 * 60_000;
/** Suites that make large databases first, some gigabytes of captures at full size. */
const LONG_SUITES = new Set(['growth', 'search']);
const LONG_RUN_LIMIT_MS = 4 * 3_600_000;

function exitUsage(problem: string): never {
  console.error(`${problem}\n\n${USAGE}`);
  process.exit(2);
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        only: { type: 'string' },
        targets: { type: 'string' },
        connections: { type: 'string' },
        bodies: { type: 'string' },
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        minutes: { type: 'string' },
        exchanges: { type: 'string' },
        runs: { type: 'string' },
        before: { type: 'string' },
        'cpu-prof': { type: 'string' },
        'node-flags': { type: 'string' },
        save: { type: 'boolean', default: false },
        strict: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return exitUsage((error as Error).message);
  }
}

/** Reads "a,b" and checks each against the allowed values. */
function readNames<T extends string>(text: string, allowed: T[], option: string): T[] {
  return text.split(',').map((name) => {
    if (!(allowed as string[]).includes(name))
      exitUsage(`--${option}: unknown name ${name}; choose from ${allowed.join(', ')}`);
    return name as T;
  });
}

function readNumbers(text: string, option: string): number[] {
  return text.split(',').map((word) => {
    const value = Number(word);
    if (!Number.isInteger(value) || value < 1)
      exitUsage(`--${option}: ${word} is not a whole number above 0`);
    return value;
  });
}

/** Shows one line that is rewritten on a terminal, and nothing elsewhere. */
function say(what: string): void {
  if (process.stderr.isTTY && process.stderr.hasColors()) process.stderr.write(`\r\x1b[K${what}`);
}

const { values, positionals } = readArguments();
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
if (positionals.length === 0) exitUsage('Which suite?');
const SUITES = [
  'gateway',
  'storage',
  'packing',
  'cores',
  'scale',
  'outage',
  'start',
  'peers',
  'steps',
  'retrieve',
  'findings',
  'lists',
  'growth',
  'soak',
  'search',
  'limits',
  'client',
  'relegation',
  'label',
];
for (const suite of positionals) if (!SUITES.includes(suite)) exitUsage(`No suite ${suite}.`);
const isLong = !values.quick && positionals.some((suite) => LONG_SUITES.has(suite));
const limitMs = isLong ? LONG_RUN_LIMIT_MS : RUN_LIMIT_MS + (Number(values.minutes) || 0) * 60_000;
setTimeout(() => {
  console.error(`bench: stopped, because it took longer than ${limitMs / 60_000} minutes`);
  process.exit(1);
}, limitMs).unref();

let met = true;
if (positionals.includes('gateway')) {
  const plan = { ...(values.quick ? QUICK : FULL) };
  if (values.only) plan.phases = readNames<GatewayPhase>(values.only, GATEWAY_PHASES, 'only');
  if (values.targets) plan.targets = readNames<TargetName>(values.targets, TARGET_NAMES, 'targets');
  if (values.connections) plan.connections = readNumbers(values.connections, 'connections');
  if (values.bodies) plan.bodies = readNumbers(values.bodies, 'bodies');
  if (values.rounds) plan.rounds = plan.streamRounds = readNumbers(values.rounds, 'rounds')[0] ?? plan.rounds;
  const profile = values['cpu-prof'];
  const nodeArgs = values['node-flags']?.split(' ') ?? [];
  if (profile) nodeArgs.push('--cpu-prof', `--cpu-prof-dir=${resolve(profile)}`);
  const { only, targets, connections, bodies, rounds } = values;
  const isPartial =
    values.quick || nodeArgs.length > 0 || (only ?? targets ?? connections ?? bodies ?? rounds);
  met = await runGatewayBench({
    plan,
    nodeArgs,
    save: values.save || !isPartial,
    say,
  });
}
if (positionals.includes('storage')) {
  // Loaded only if requested, because the gateway's bench measures from outside and loads nothing of the product.
  const { runStorageBench } = await import('./storage.ts');
  await runStorageBench({ save: values.save || !values.quick });
}
if (positionals.includes('packing')) {
  const { runPackingBench } = await import('./packing.ts');
  const readOne = (text: string | undefined, option: string, usual: number): number =>
    text === undefined ? usual : (readNumbers(text, option)[0] ?? usual);
  await runPackingBench({
    before: values.before ?? null,
    seconds: readOne(values.seconds, 'seconds', values.quick ? 10 : 60),
    rounds: readOne(values.rounds, 'rounds', values.quick ? 1 : 2),
    save: values.save || !values.quick,
  });
}
const { quick } = values;
const save = values.save || !quick;
if (positionals.includes('cores')) {
  const { runCoresBench } = await import('./cores.ts');
  met = (await runCoresBench({ quick, save, say })) && met;
}
if (positionals.includes('scale')) {
  const { runScaleBench } = await import('./scale.ts');
  await runScaleBench({ quick, save, say });
}
if (positionals.includes('outage')) {
  const { runOutageBench } = await import('./outage.ts');
  met = (await runOutageBench({ quick, save, say })) && met;
}
if (positionals.includes('start')) {
  const { runStartBench } = await import('./start.ts');
  await runStartBench({ quick, save, before: values.before ?? null, say });
}
if (positionals.includes('peers')) {
  const { runPeersBench } = await import('./peers.ts');
  await runPeersBench({ quick, save, say });
}
if (positionals.includes('steps')) {
  const { runStepsBench } = await import('./steps.ts');
  met = (await runStepsBench({ quick, save, say })) && met;
}
if (positionals.includes('retrieve')) {
  const { runRetrieveBench } = await import('./retrieve.ts');
  met = (await runRetrieveBench({ quick, save, say })) && met;
}
if (positionals.includes('findings')) {
  const { runFindingsBench } = await import('./findings.ts');
  met = (await runFindingsBench({ quick, save, say })) && met;
}
if (positionals.includes('lists')) {
  const { runListsBench } = await import('./lists.ts');
  met = (await runListsBench({ quick, save, say })) && met;
}
if (positionals.includes('growth')) {
  const { GROWTH_FULL, GROWTH_QUICK, runGrowthBench } = await import('./growth.ts');
  const usual = quick ? GROWTH_QUICK : GROWTH_FULL;
  const { exchanges, runs } = values;
  const plan = {
    ...usual,
    ...(exchanges === undefined ? {} : { exchanges: readNumbers(exchanges, 'exchanges') }),
    ...(runs === undefined ? {} : { runs: readNumbers(runs, 'runs') }),
  };
  await runGrowthBench({
    plan,
    save: values.save || (!quick && exchanges === undefined && runs === undefined),
    say,
  });
}
if (positionals.includes('soak')) {
  const { runSoakBench } = await import('./soak.ts');
  const minutes =
    values.minutes === undefined ? (quick ? 1 : 20) : (readNumbers(values.minutes, 'minutes')[0] ?? 20);
  const isWhole = !quick && values.minutes === undefined;
  met = (await runSoakBench({ minutes, save: values.save || isWhole, say })) && met;
}
if (positionals.includes('search')) {
  const { runSearchBench } = await import('./search.ts');
  met = (await runSearchBench({ quick, save, say })) && met;
}
if (positionals.includes('limits')) {
  const { describeLimits, LIMITS_FULL, LIMITS_QUICK, runLimitsBench } = await import('./limits.ts');
  const report = await runLimitsBench(quick ? LIMITS_QUICK : LIMITS_FULL, say);
  console.log(describeLimits(report).join('\n'));
  if (save) saveResult({ suite: 'limits', ...takeProvenance(), ...report });
  met = report.goal_met && met;
}
if (positionals.includes('client')) {
  const { runClientBench } = await import('./client.ts');
  met = (await runClientBench({ quick, save, say })) && met;
}
if (positionals.includes('relegation')) {
  const { runRelegationBench } = await import('./relegation.ts');
  met = (await runRelegationBench({ quick, save, say })) && met;
}
if (positionals.includes('label')) {
  const { describeLabel, LABEL_FULL, LABEL_QUICK, runLabelBench } = await import('./label.ts');
  const report = runLabelBench(quick ? LABEL_QUICK : LABEL_FULL, say);
  console.log(describeLabel(report).join('\n'));
  if (save) saveResult({ suite: 'label', ...takeProvenance(), ...report });
  met = report.goal_met && met;
}
process.exit(values.strict && !met ? 1 : 0);
