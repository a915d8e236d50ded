/**
 * Measures how long the service takes to stop and to start with many live runs, and how many bytes a run takes on the
 * disk: `node bench/live-runs.ts [RUNS] [STEPS] [--finish]`. With `--finish`, the runs are finished before the stop. If
 * the environment has `KEEP`, the databases are not removed at the end. Own process.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readCpuUs } from './process-meter.ts';
import { PRODUCT_KEY, startProduct } from './product.ts';

const CONNECTIONS = 32;
/** Requests that a connection sends before it waits for their answers. */
const PIPELINED = 1;

const [runs = 100_000, steps = 1] = process.argv
  .slice(2)
  .filter((word) => /^\d+$/.test(word))
  .map(Number);
const isFinished = process.argv.includes('--finish');

/** Yields the requests of a run. */
function* listRequests(run: number): Generator<{ path: string; body: object }> {
  const run_id = `run-${run}`;
  const task = `Fix the failing test number ${run} of the parser module without changing its interface`;
  yield { path: '/v1/monitor/runs', body: { run_id, agent_name: 'bench-agent', model: 'model-1', task } };
  for (let step_index = 0; step_index < steps; step_index++) {
    const file = `src/parser/part-${(run * 7 + step_index * 3) % 977}.ts`;
    const body = {
      step_index,
      action: ['read_file', 'edit_file', 'run_tests'][step_index % 3],
      action_input: JSON.stringify({ path: file, line: (run * 31 + step_index) % 4_001 }),
      thought: `The failure of case ${run % 613} names line ${step_index * 17 + (run % 89)}, so I look at ${file} next`,
      observation:
        `export function parse${run}(text: string) { return text.split('${step_index}').length - ${run % 97}; }\n`.repeat(
          3,
        ),
      tokens: 300 + ((run + step_index) % 500),
    };
    yield { path: `/v1/monitor/runs/${run_id}/steps`, body };
  }
  if (isFinished) yield { path: `/v1/monitor/runs/${run_id}/finish`, body: { outcome: 'success' } };
}

let sentBytes = 0;

/** Sends the requests of every CONNECTIONS-th run over one connection. */
function sendRuns(port: number, from: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const requests = (function* () {
      for (let run = from; run < runs; run += CONNECTIONS) yield* listRequests(run);
    })();
    let waiting = 0;
    let isDone = false;
    let rest = '';
    const send = () => {
      let text = '';
      while (waiting < PIPELINED && !isDone) {
        const { value, done } = requests.next();
        if (done === true) isDone = true;
        else {
          const body = JSON.stringify(value.body);
          sentBytes += body.length;
          text += `POST ${value.path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${PRODUCT_KEY}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
          waiting++;
        }
      }
      if (text !== '') socket.write(text);
      else if (waiting === 0) socket.end();
    };
    socket.setEncoding('latin1').on('data', (text: string) => {
      rest += text;
      const heads = rest.split('HTTP/1.1 ');
      const answered = heads.length - 1;
      const refused = heads.slice(1).find((head) => !head.startsWith('200'));
      if (refused !== undefined) return reject(new Error(refused.slice(0, 300)));
      rest = '';
      waiting -= answered;
      if (waiting <= PIPELINED / 2) send();
    });
    socket.once('connect', send).once('close', resolve).once('error', reject);
  });
}

function measureFolder(dir: string): Record<string, number> {
  return Object.fromEntries(
    readdirSync(dir)
      .filter((name) => /\.(mdb|redo)$/.test(name))
      .map((name) => [name, statSync(join(dir, name)).blocks * 512]),
  );
}

const dir = mkdtempSync(join(tmpdir(), 'understudy-live-runs-'));
try {
  const ownUs = () => process.cpuUsage().user + process.cpuUsage().system;
  let product = await startProduct(dir, {});
  const cpu = readCpuUs(product.pid);
  const own = ownUs();
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, from) => sendRuns(product.port, from)));
  const filledUs = readCpuUs(product.pid);
  const figures: Record<string, unknown> = {
    runs,
    steps,
    is_finished: isFinished,
    sent_bytes_per_run: Math.round(sentBytes / runs),
    service_cpu_us_per_run: Math.round((filledUs - cpu) / runs),
    load_cpu_us_per_run: Math.round((ownUs() - own) / runs),
  };
  let started = performance.now();
  await product.stop();
  figures.stop_ms = Math.round(performance.now() - started);
  const files = measureFolder(dir);
  figures.bytes_per_run = Object.fromEntries(
    Object.entries(files).map(([name, bytes]) => [name, Math.round(bytes / runs)]),
  );
  started = performance.now();
  product = await startProduct(dir, {});
  figures.start_ms = Math.round(performance.now() - started);
  figures.start_cpu_ms = Math.round(readCpuUs(product.pid) / 1_000);
  await product.stop();
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
} finally {
  if (process.env.KEEP === undefined) rmSync(dir, { recursive: true, force: true });
  else process.stderr.write(`${dir}\n`);
}
