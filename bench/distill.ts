/**
 * How much memory and time `understudy distill` takes on a large capture database, which this file makes first. Own process; the
 * command runs as a child, and the bench reads its memory every few milliseconds. `node bench/distill.ts [--megabytes N]`.
 *
 * The database holds an agent that looks things up and answers, in runs of four turns whose tool results do not compress. It also
 * has as many runs of a single turn, so that there are many runs; failed, aborted and unfinished runs; one run of 400 turns; and one
 * with a request of 60 MB. Figures are the resident memory of the child: anonymous (its own) and file pages (the database as the
 * system maps it, which it takes back when others need memory), and the peak of both together.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { IN_PROCESS } from '../src/cli/guard.ts';
import type { CapturedExchange } from '../src/domain/exchange.ts';
import { decodeExchange } from '../src/providers/decode.ts';
import { CaptureLog } from '../src/storage/capture/log.ts';
import { makeRandom } from './storage-runs.ts';

const MEGABYTE = 1_000_000;
const BATCH_BYTES = 8 * MEGABYTE;
const RESULT_BYTES = 60_000;
const ROTATE_EVERY_RUNS = 40_000;
const SAMPLE_MS = 20;
const TOOLS = [
  {
    name: 'look_up_order',
    description: 'Finds an order',
    input_schema: { type: 'object', properties: { order: { type: 'string' } } },
  },
  {
    name: 'read_log',
    description: 'Reads the log of an order',
    input_schema: { type: 'object', properties: { order: { type: 'string' }, page: { type: 'integer' } } },
  },
];
const random = makeRandom(11);
let clockMs = Date.UTC(2026, 0, 1);

type Json = Record<string, unknown>;

function exchange(
  runId: string,
  seq: number,
  messages: Json[],
  content: Json[],
  over: Partial<CapturedExchange> = {},
) {
  clockMs += 700;
  const calls = content.some(({ type }) => type === 'tool_use');
  const request = Buffer.from(
    JSON.stringify({
      model: 'claude-demo',
      max_tokens: 512,
      system: 'You look after orders.',
      tools: TOOLS,
      messages,
    }),
  );
  const response = Buffer.from(
    JSON.stringify({
      id: `msg_${seq}`,
      type: 'message',
      role: 'assistant',
      model: 'claude-demo',
      content,
      stop_reason: calls ? 'tool_use' : 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: Math.round(request.length / 4), output_tokens: 40 },
    }),
  );
  const made: CapturedExchange = {
    run_id: runId,
    seq,
    note: '',
    provider: 'anthropic',
    kind: 'turn',
    shape: 'messages',
    method: 'POST',
    path: '/v1/messages',
    query: '',
    status: 200,
    started_at_ms: clockMs,
    first_byte_ms: 300,
    duration_ms: 600,
    aborted: false,
    truncated: false,
    served_by: 'upstream',
    request_headers: ['content-type', 'application/json', 'anthropic-version', '2023-06-01'],
    response_headers: ['content-type', 'application/json'],
    request_bytes: request.length,
    response_bytes: response.length,
    request_body: request,
    response_body: response,
    ...over,
  };
  return made;
}

/** Text that zstd makes little of. */
function noise(bytes: number): string {
  return randomBytes(Math.ceil((bytes * 3) / 4))
    .toString('base64')
    .slice(0, bytes);
}

/** A run of the agent, `turns` answers long. */
function* makeRun(name: string, turns: number, resultBytes: number): Generator<CapturedExchange> {
  const order = `A-${10_000 + Math.floor(random() * 90_000)}`;
  const messages: Json[] = [{ role: 'user', content: `Where is order ${order}?` }];
  for (let turn = 1; turn <= turns; turn++) {
    const isLast = turn === turns;
    const id = `toolu_${name}_${turn}`;
    const call =
      turn === 1
        ? { type: 'tool_use', id, name: 'look_up_order', input: { order } }
        : { type: 'tool_use', id, name: 'read_log', input: { order, page: turn - 1 } };
    const content = isLast ? [{ type: 'text', text: `Order ${order} is on its way.` }] : [call];
    yield exchange(name, turn, messages, content);
    if (isLast) return;
    messages.push(
      { role: 'assistant', content },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: id,
            content: JSON.stringify({ order, state: 'sent', log: noise(resultBytes) }),
          },
        ],
      },
    );
  }
}

function* makeExchanges(
  runs: number,
  singles: number,
): Generator<{ exchange: CapturedExchange; ends_run: boolean }> {
  const perRun = Math.ceil(singles / runs);
  for (let at = 0; at < runs; at++) {
    const kind = random();
    const made = [...makeRun(`run-${at}`, 4, RESULT_BYTES)];
    if (kind < 0.05) made.pop();
    else if (kind < 0.08) made[3] = { ...made[3]!, status: 529, response_body: Buffer.from('{}') };
    else if (kind < 0.1) made[3] = { ...made[3]!, aborted: true };
    for (const [turn, one] of made.entries()) yield { exchange: one, ends_run: turn === made.length - 1 };
    for (let single = 0; single < perRun; single++) {
      const name = `single-${at}-${single}`;
      const said = [{ role: 'user', content: `What is ${at} and ${single}?` }];
      yield {
        exchange: exchange(name, 1, said, [{ type: 'text', text: `${at + single}.` }]),
        ends_run: true,
      };
    }
  }
  yield* [...makeRun('long', 400, 2_000)].map((one, at) => ({ exchange: one, ends_run: at === 399 }));
  for (const one of makeRun('huge', 2, 60 * MEGABYTE)) yield { exchange: one, ends_run: false };
}

async function makeDatabase(path: string, megabytes: number): Promise<{ exchanges: number; runs: number }> {
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange });
  const runs = Math.ceil((megabytes * MEGABYTE) / (3 * RESULT_BYTES * 0.77));
  let batch: CapturedExchange[] = [];
  let batchBytes = 0;
  let exchanges = 0;
  let ended = 0;
  let nextRotation = ROTATE_EVERY_RUNS;
  for (const { exchange: one, ends_run } of makeExchanges(runs, 100_000)) {
    batch.push(one);
    batchBytes += one.request_bytes + one.response_bytes;
    exchanges += 1;
    ended += ends_run ? 1 : 0;
    if (batchBytes < BATCH_BYTES && batch.length < 500) continue;
    await log.append(batch);
    batch = [];
    batchBytes = 0;
    if (ended < nextRotation) continue;
    nextRotation += ROTATE_EVERY_RUNS;
    while ((await log.indexSome(decodeExchange, 1_000)) > 0);
    await log.rotate();
  }
  await log.append(batch);
  // As a gateway does while it has nothing else to do.
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
  await log.close();
  return { exchanges, runs: ended };
}

interface Peak {
  rss: number;
  own: number;
  file: number;
}

/** Runs the command and looks at its memory meanwhile, in MB. */
async function measure(
  argv: string[],
): Promise<{ seconds: number; status: number | null; out: string; peak: Peak }> {
  const entry = fileURLToPath(new URL('../src/cli/understudy.mjs', import.meta.url));
  const started = performance.now();
  const child = spawn(process.execPath, [entry, IN_PROCESS, ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  const peak: Peak = { rss: 0, own: 0, file: 0 };
  const sample = setInterval(() => {
    const read = (name: string): number => {
      try {
        const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
        return (Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) * 1_024) / MEGABYTE;
      } catch {
        return 0;
      }
    };
    peak.rss = Math.max(peak.rss, read('VmHWM'));
    peak.own = Math.max(peak.own, read('RssAnon'));
    peak.file = Math.max(peak.file, read('RssFile'));
  }, SAMPLE_MS);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearInterval(sample);
  return { seconds: (performance.now() - started) / 1_000, status, out, peak };
}

const { values } = parseArgs({
  options: { megabytes: { type: 'string', default: '1500' }, keep: { type: 'string' } },
});
const folder = values.keep ?? mkdtempSync(join(tmpdir(), 'bench-distill-'));
try {
  const db = join(folder, 'capture.mdb');
  const started = performance.now();
  if (!readdirSync(folder).includes('capture.mdb')) {
    const made = await makeDatabase(db, Number(values.megabytes));
    console.log(
      `made ${made.exchanges} exchanges in ${made.runs} runs in ${Math.round((performance.now() - started) / 1_000)} s`,
    );
  }
  const bytes = readdirSync(folder)
    .filter((name) => name.endsWith('.mdb'))
    .reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  console.log(`database ${Math.round(bytes / MEGABYTE)} MB`);
  for (const what of ['first', 'again']) {
    const { seconds, status, out, peak } = await measure([
      'distill',
      '--db',
      db,
      '--out',
      join(folder, 'student'),
    ]);
    console.log(
      `${what}: exit ${status}, ${seconds.toFixed(1)} s; resident ${Math.round(peak.rss)} MB at most: own ${Math.round(peak.own)} MB, file pages ${Math.round(peak.file)} MB`,
    );
    if (what === 'first') console.log(out);
  }
} finally {
  if (values.keep === undefined) rmSync(folder, { recursive: true, force: true });
}
