/**
 * `npm run demo`: an agent with the provider's official SDK works through the gateway against a provider that is part
 * of the demo, then `inspect` shows what was captured. Needs no key and no network. Main thread of a process of its own.
 *
 * The capture database stays under DATA_DIR/demo for the commands that are named at the end; the next demo replaces it.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { runInspect } from '../cli/inspect.ts';
import { type CliIo, EXIT, openProcessIo } from '../cli/io.ts';
import { loadConfig, raiseParserHeadLimit } from '../config.ts';
import { runAgent } from './agent.ts';
import { startFakeProvider } from './fake-provider.ts';
import { createStory, TASK } from './story.ts';
import { Workspace } from './workspace.ts';

/** How the run is called in the capture database. */
const RUN_ID = 'demo';

/** What was started, to be stopped in reverse. */
type Stop = () => Promise<unknown>;

/** Where the demo's database goes: beside the operator's own data, never into it. */
async function makeDatabasePath(): Promise<string> {
  const dir = join(loadConfig({ listener: 'gateway' }).data_dir, 'demo');
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  return join(dir, 'capture.mdb');
}

/** Provider, gateway and agent, from start to stop. */
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

/** The whole demo. @returns the exit status */
async function runDemo(io: CliIo): Promise<number> {
  const db = await makeDatabasePath();
  await captureRun(db, io);
  const below = relative(process.cwd(), db);
  const inspect = `npx understudy inspect --db ${below.startsWith('..') ? db : below}`;
  await io.out(`\nWhat the gateway captured  (${inspect})\n\n`);
  const listed = await runInspect(['--db', db], io);
  if (listed !== EXIT.done) return listed;
  await io.out(`\nThe run itself  (${inspect} --run ${RUN_ID})\n\n`);
  const told = await runInspect(['--db', db, '--run', RUN_ID], io);
  if (told !== EXIT.done) return told;
  await io.out(
    '\nNext:\n\n' +
      `  ${inspect} --exchange 1 --raw request\n` +
      "      the first request's body, byte for byte\n\n" +
      '  npm start\n' +
      '      the gateway for your own agent: set its base URL to http://127.0.0.1:8787, nothing else\n',
  );
  return EXIT.done;
}

// As the command line has it.
process.umask(0o077);
const io = openProcessIo();
try {
  process.exitCode = await runDemo(io);
} catch (error) {
  io.err(`the demo failed: ${(error as Error).message}\n`);
  process.exitCode = EXIT.failed;
}
