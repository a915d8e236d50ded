/**
 * The process that logs steps for several suites, so that the load does not share a process with what is measured. The
 * suite forks this process, which gets one job at a time as a message, answers with the figures, and exits when its
 * parent exits.
 *
 * It uses raw keep-alive sockets, with one request at a time on each. Every step has a new body of about the size that
 * the steps of public agents have (median 530 characters of text).
 */
import { connect, type Socket } from 'node:net';
import { type Quantiles, takeQuantiles } from './quantiles.ts';

/** Requests that each connection sends, one after another. */
export interface StepJob {
  /** Short blocks of requests go to one target after the other, so that the machine's other work affects all alike. */
  targets: { name: string; port: number; key: string }[];
  connections: number;
  /** Requests of each connection to each target. */
  requests: number;
  /** `start`: each request starts a run; `steps`: each logs a step. */
  what: 'start' | 'steps';
  /** Run ids are `<prefix>-<number>`. */
  prefix: string;
  /**
   * The run that a step belongs to. `own`: the connection's own run. A number: all connections share this many runs,
   * and successive steps belong to successive runs.
   */
  runs: 'own' | number;
  /**
   * Opens `2 * connections` sockets for `connections` agents. Each request uses the socket that has been free longest,
   * as with a client that has a pool or a proxy. Only with `runs: 'own'`.
   */
  is_pooled?: boolean;
  /**
   * Each connection first starts its run, as an agent does; the start is not measured. Only with `runs: 'own'`.
   */
  starts_own?: boolean;
  /** step_index of the first step; number of the first run that is started. */
  first_index: number;
  /** Requests of each connection to one target before the next target's turn. */
  block: number;
}

export interface StepResult {
  /** By target. */
  targets: Record<
    string,
    {
      /** Microseconds from write to last byte, of all connections together. */
      latency_us: Quantiles;
      /** The medians of ten consecutive parts in the order of the answers, microseconds. */
      parts_us: number[];
      per_s: number;
      failures: number;
      first_failure: string;
    }
  >;
}

const FILES = 40;

/** Makes an agent's step. No two steps are equal, but some are similar enough for the monitors to compare them. */
function makeStepBody(index: number, seed: number): string {
  const file = `src/module-${(index * 7 + seed) % FILES}/part-${index % 11}.ts`;
  return JSON.stringify({
    step_index: index,
    action: index % 3 === 0 ? 'edit_file' : 'read_file',
    action_input: JSON.stringify({
      path: file,
      line: (index * 31) % 400,
      text: `value ${index * 17 + seed}`,
    }),
    thought: `The test ${index} still fails because ${file} returns ${index % 5}; look at how it is called from run ${seed}.`,
    observation: `${file}\n${'  const total = items.reduce((sum, item) => sum + item.price, 0);\n'.repeat(4)}exit code ${index % 4}`,
    is_error: index % 4 === 1,
    tokens: 120 + (index % 50),
  });
}

/** One keep-alive connection. */
class Line {
  readonly #socket: Socket;
  #text = '';
  #done: ((status: number) => void) | null = null;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.setEncoding('latin1');
    this.#socket.on('data', (text: unknown) => this.#read(text as string));
    this.#socket.on('error', () => this.#finish(0));
    this.#socket.on('close', () => this.#finish(0));
  }

  /** Sends a request. @returns the status of the answer; 0 if the connection broke */
  ask(request: string): Promise<number> {
    return new Promise((resolve) => {
      this.#done = resolve;
      this.#socket.write(request);
    });
  }

  end(): void {
    this.#socket.destroy();
  }

  #read(text: string): void {
    this.#text += text;
    const headEnd = this.#text.indexOf('\r\n\r\n');
    if (headEnd < 0) return;
    const length = /content-length: (\d+)/i.exec(this.#text.slice(0, headEnd));
    if (this.#text.length < headEnd + 4 + Number(length?.[1] ?? 0)) return;
    const status = Number(this.#text.slice(9, 12));
    this.#text = '';
    this.#finish(status);
  }

  #finish(status: number): void {
    const done = this.#done;
    this.#done = null;
    done?.(status);
  }
}

function makeRequest(path: string, key: string, body: string): string {
  const head = `POST ${path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n`;
  return `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Makes the request that starts a run. */
function makeStart(run_id: string, number: number, key: string): string {
  const body = { run_id, agent_name: 'bench', task: `repair module ${number}`, model: 'm' };
  return makeRequest('/v1/monitor/runs', key, JSON.stringify(body));
}

async function runJob(job: StepJob): Promise<StepResult> {
  const opened = job.is_pooled ? 2 * job.connections : job.connections;
  const lines = job.targets.map(({ port }) => Array.from({ length: opened }, () => new Line(port)));
  const latencies = job.targets.map(() => [] as number[]);
  const busyMs = job.targets.map(() => 0);
  const failures = job.targets.map(() => 0);
  const firstFailures = job.targets.map(() => '');
  const nextRun = job.targets.map(() => 0);
  const sent = job.targets.map(() => new Array<number>(job.connections).fill(0));

  const startOf = (target: number, number: number): string =>
    makeStart(`${job.prefix}-${number}`, number, job.targets[target]!.key);
  const requestOf = (target: number, connection: number): string => {
    const { key } = job.targets[target]!;
    const at = sent[target]![connection]!++;
    if (job.what === 'start') return startOf(target, job.first_index + nextRun[target]!++);
    const next = job.runs === 'own' ? at : nextRun[target]!++;
    const run = job.runs === 'own' ? connection : next % job.runs;
    const body = makeStepBody(job.first_index + next, run);
    return makeRequest(`/v1/monitor/runs/${job.prefix}-${run}/steps`, key, body);
  };

  if (job.starts_own)
    await Promise.all(
      lines.flatMap((own, target) =>
        own.slice(0, job.connections).map((line, connection) => line.ask(startOf(target, connection))),
      ),
    );

  for (let done = 0; done < job.requests; done += job.block) {
    for (let target = 0; target < job.targets.length; target++) {
      const count = Math.min(job.block, job.requests - done);
      const startedMs = performance.now();
      // The connection that has been free for longest is the first.
      const free = job.is_pooled ? [...lines[target]!] : null;
      await Promise.all(
        lines[target]!.slice(0, job.connections).map(async (own, connection) => {
          for (let i = 0; i < count; i++) {
            const request = requestOf(target, connection);
            const line = free?.shift() ?? own;
            const sentMs = performance.now();
            const status = await line.ask(request);
            free?.push(line);
            latencies[target]!.push((performance.now() - sentMs) * 1_000);
            if (status === 200) continue;
            failures[target]!++;
            firstFailures[target] ||= `${status} to ${request.slice(0, 80)}`;
          }
        }),
      );
      busyMs[target]! += performance.now() - startedMs;
    }
  }
  for (const line of lines.flat()) line.end();
  const targets = Object.fromEntries(
    job.targets.map(({ name }, at): [string, StepResult['targets'][string]] => [
      name,
      {
        ...summarizeLatencies(latencies[at]!, busyMs[at]!),
        failures: failures[at]!,
        first_failure: firstFailures[at]!,
      },
    ]),
  );
  return { targets };
}

/** Summarizes the latencies of a round. @param latencies_us in the order of the answers */
function summarizeLatencies(
  latencies_us: readonly number[],
  busyMs: number,
): Pick<StepResult['targets'][string], 'parts_us' | 'latency_us' | 'per_s'> {
  const part = Math.ceil(latencies_us.length / 10);
  return {
    parts_us: Array.from(
      { length: 10 },
      (_, i) => takeQuantiles(Float64Array.from(latencies_us.slice(i * part, (i + 1) * part))).p50,
    ),
    latency_us: takeQuantiles(Float64Array.from(latencies_us)),
    per_s: latencies_us.length / (busyMs / 1_000),
  };
}

process.on('message', (job: StepJob) => {
  runJob(job).then(
    (result) => process.send?.({ result }),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
process.send?.({ ready: true });
