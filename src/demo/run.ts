/**
 * `npm run demo`: an agent with the provider's official SDK works through the gateway against a provider that is part
 * of the demo, then `inspect` shows what was captured. Needs no key and no network. Main thread of a separate process.
 *
 * The capture database stays under DATA_DIR/demo for the commands that are named at the end; the next demo replaces it.
 */
import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { runInspect } from '../cli/inspect.ts';
import { type CliIo, EXIT, openProcessIo } from '../cli/io.ts';
import { loadConfig, raiseParserHeadLimit } from '../config.ts';
import { quoteForShell } from '../std/shell-word.ts';
import { runAgent } from './agent.ts';
import { startFakeProvider } from './fake-provider.ts';
import { createStory, TASK } from './story.ts';
import { Workspace } from './workspace.ts';

/** Name of the run in the capture database. */
const RUN_ID = 'demo';

/** Stops a started part. The parts are stopped in reverse order. */
type Stop = () => Promise<unknown>;

/** Path of the demo's database, in a separate folder below DATA_DIR. */
async function makeDatabasePath(): Promise<string> {
  const dir = join(loadConfig({ listener: 'gateway' }).data_dir, 'demo');
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  return join(dir, 'capture.mdb');
}

/** Starts the provider and the gateway, runs the agent, and stops them. */
async function captureRun(db: string, io: CliIo): Promise<void> {
  const stops: Stop[] = [];
  try {
    const provider = await startFakeProvider({ script: createStory() });
    stops.push(() => provider.close());
    const config = loadConfig(
      { listener: 'gateway', host: '127.0.0.1', port: '0', db, note: 'demo' },
      {
        LOG_LEVEL: 'warn',
        GW_UPSTREAM_BASE: provider.url,
        GW_GEMINI_BASE: provider.url,
        GW_BEDROCK_BASE: provider.url,
      },
    );
    raiseParserHeadLimit();
    const { startUnderstudy } = await import('../main.ts');
    const understudy = await startUnderstudy(config, { api: false, gateway: true });
    stops.push(() => understudy.stop());
    const workspace = await Workspace.create();
    stops.push(() => workspace.remove());
    const gatewayUrl = understudy.gateway_url!;
    await io.out(
      `Provider of the demo   ${provider.url}   (no key, no network)\n` +
        `Understudy's gateway   ${gatewayUrl}\n\n` +
        `The agent's task: ${TASK}\n\n`,
    );
    let written = Promise.resolve();
    const report = (line: string): void => {
      written = written.then(() => io.out(`${line}\n`));
    };
    await runAgent({ base_url: gatewayUrl, run_id: RUN_ID, task: TASK, workspace, report });
    await written;
    const flush = await fetch(`${gatewayUrl}/__gw/flush`, { method: 'POST' });
    if (!flush.ok) throw new Error(`the capture could not be flushed: ${await flush.text()}`);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** Runs the whole demo. @returns the exit status */
async function runDemo(io: CliIo): Promise<number> {
  const db = await makeDatabasePath();
  await captureRun(db, io);
  const below = relative(process.cwd(), db);
  const inspect = `npx understudy-gateway inspect --db ${below.startsWith('..') ? db : below}`;
  await io.out(`\nWhat the gateway captured  (${inspect})\n\n`);
  const listed = await runInspect(['--db', db], io);
  if (listed !== EXIT.done) return listed;
  await io.out(`\nThe run itself  (${inspect} --run ${RUN_ID})\n\n`);
  const told = await runInspect(['--db', db, '--run', RUN_ID], io);
  if (told !== EXIT.done) return told;
  const next = io.is_terminal ? '' : showLines(db);
  await io.out(
    `\nNext:\n\n${next}` +
      `  ${inspect} --exchange 1 --raw request\n` +
      "      the first request's body, byte for byte\n\n" +
      '  npm start\n' +
      '      the gateway for your own agent: set its base URL to http://127.0.0.1:8787, nothing else\n',
  );
  if (io.is_terminal) await showRun(db, io);
  return EXIT.done;
}

/** The command that shows the demo's run in the dashboard. Printed if the output is not a terminal. */
function showLines(db: string): string {
  return `  DATA_DIR=${quoteForShell(relative(process.cwd(), dirname(db)))} npm start\n      the run in the dashboard\n\n`;
}

/** Serves the dashboard with the run until Ctrl-C. */
async function showRun(db: string, io: CliIo): Promise<void> {
  const embedded = 'embedded:';
  const config = loadConfig(
    { listener: 'gateway', host: '127.0.0.1', port: '0', db },
    {
      LOG_LEVEL: 'error',
      DATA_DIR: dirname(db),
      HOST: '127.0.0.1',
      PORT: '0',
      ...{ AUTH_DB_URL: embedded, AUTH_DB_CONN_URL: embedded, VECTOR_STORE_URL: embedded },
    },
  );
  const { startUnderstudy } = await import('../main.ts');
  const understudy = await startUnderstudy(config, { api: true, gateway: true });
  const { api_url, owner_token } = understudy;
  await io.out(
    `\nThe run in the dashboard, until Ctrl-C:\n\n  ${api_url}/#token=${owner_token}&next=runs/${RUN_ID}\n`,
  );
  await Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
  await understudy.stop();
}

// The same file permissions as in the command line.
process.umask(0o077);
const io = openProcessIo();
try {
  process.exitCode = await runDemo(io);
} catch (error) {
  io.err(`the demo failed: ${(error as Error).message}\n`);
  process.exitCode = EXIT.failed;
}
