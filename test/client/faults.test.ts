/**
 * A watched agent behaves like an unwatched one, whatever happens to the service: the same output, the same exit code,
 * and no uncaught error. Each case runs the same agent in a separate process, over real sockets.
 */
import { execFile } from 'node:child_process';
import { createServer, type RequestListener, type Server } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type ClientStats, NotFoundError, Understudy } from '../../src/client/understudy.ts';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const AGENT = fileURLToPath(new URL('../fixtures/watched-agent.ts', import.meta.url));

interface Ending {
  stdout: string;
  /** The exit code, or the name of the signal. */
  code: number | string;
  stderr: string;
  stats: ClientStats;
}

const closers: (() => unknown)[] = [];
let service: ClientService;
let provider: string;
/** Called at each turn of an agent. */
let onTurn: (turn: number) => void = () => {};

beforeAll(async () => {
  service = await ClientService.start();
  provider = await serve((request, response) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      const { turn } = JSON.parse(body);
      onTurn(turn);
      response.end(`answer ${turn}`);
    });
  });
});
afterAll(async () => {
  for (const close of closers) close();
  await service.stop();
});

async function listen(server: Server | TcpServer): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function serve(listener: RequestListener): Promise<string> {
  // An agent that is busy longer than the idle time of a connection would find it closed.
  const server = createServer({ keepAliveTimeout: 0 }, listener);
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return listen(server);
}

async function serveRaw(listener: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    listener(socket);
  });
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return listen(server);
}

/** @param baseUrl null: the agent works without the client */
function runAgent(baseUrl: string | null, args: string[], env: Record<string, string>): Promise<Ending> {
  const watched = baseUrl === null ? {} : { WATCHED: '1', SVC_BASE_URL: baseUrl, SVC_API_KEY: CLIENT_KEY };
  return new Promise((resolve) => {
    const options = {
      env: { ...process.env, NODE_NO_WARNINGS: '0', ...watched, ...env },
      maxBuffer: 2 ** 26,
    };
    const argv = [AGENT, '--provider', provider, ...args];
    execFile(process.execPath, argv, options, (error, stdout, stderr) => {
      const [, stats = 'null'] = /^STATS (.*)$/m.exec(stderr) ?? [];
      const code = error?.signal ?? Number(error?.code ?? 0);
      resolve({ stdout, code, stderr, stats: JSON.parse(stats) });
    });
  });
}

/**
 * Runs the agent with and without the library.
 * @returns how the watched agent ended, after a check that the other one ended alike
 */
async function watch(
  baseUrl: string,
  args: string[] = [],
  env: Record<string, string> = QUICK,
): Promise<Ending> {
  const [bare, watched] = await Promise.all([runAgent(null, args, {}), runAgent(baseUrl, args, env)]);
  expect(bare.stdout).not.toBe('');
  expect({ stdout: watched.stdout, code: watched.code }, watched.stderr).toEqual({
    stdout: bare.stdout,
    code: bare.code,
  });
  expect(watched.stderr).not.toMatch(/unhandled|TypeError|ReferenceError|MaxListeners/i);
  // A killed agent does not report its counts.
  if (watched.stats === null) return watched;
  const { logged, sent, dropped, queued } = watched.stats.steps;
  expect(sent + dropped + queued).toBe(logged);
  return watched;
}

/** @returns the indexes of the steps that the service has, in order; none if it does not know the run */
async function readSteps(runId: string): Promise<number[]> {
  const reader = new Understudy({ apiKey: CLIENT_KEY, baseUrl: service.url, timeoutMs: PATIENCE_MS });
  try {
    const { steps } = await reader.api.listRunSteps({ params: { id: runId }, query: { limit: 200 } });
    return steps.map(({ step_index }) => step_index).sort((a, b) => a - b);
  } catch (thrown) {
    if (thrown instanceof NotFoundError) return [];
    throw thrown;
  } finally {
    await reader.close();
  }
}

function warnings(stderr: string): string[] {
  return [...stderr.matchAll(/\[(UNDERSTUDY_\w+)\]/g)].map(([, code]) => code!);
}

/** Limits for a service that answers, on a machine of any speed. */
const PATIENT = { TIMEOUT_MS: String(PATIENCE_MS), EXIT_FLUSH_MS: String(PATIENCE_MS) };
/** Limits for a service that does not answer. */
const QUICK = { TIMEOUT_MS: '300', EXIT_FLUSH_MS: '1000' };

describe('the agent behaves as without the client', () => {
  it('if the service answers, and all steps are stored at the end', { tags: 'long' }, async () => {
    const { stats, stderr } = await watch(service.url, [], { ...PATIENT, RUN_ID: 'there' });
    expect(stats.steps).toMatchObject({ logged: 6, sent: 6, dropped: 0, queued: 0 });
    expect(warnings(stderr)).toEqual([]);
    const run = await service.readRun('there', 'success');
    expect(run).toMatchObject({ status_code: 200, steps: 6, tokens: 30 });
  });

  it('if the agent fails', { tags: 'long' }, async () => {
    const { code } = await watch(service.url, ['--failing'], { ...PATIENT, RUN_ID: 'failing' });
    expect(code).toBe(3);
    const run = await service.readRun('failing', 'failure: NothingFound');
    expect(run).toMatchObject({ status_code: 200, steps: 6 });
  });

  it('if the port is closed', { tags: 'long' }, async () => {
    const { stats } = await watch('http://127.0.0.1:1');
    expect(stats.steps).toMatchObject({ sent: 0, dropped: 6 });
    expect(stats.circuit).toBe('open');
  });

  it('if the service does not answer, and few requests are sent', { tags: 'long' }, async () => {
    const silent = await serveRaw(() => {});
    const { stats } = await watch(silent, ['--steps', '100']);
    // Only requests for patterns and probes are sent, however long the machine takes.
    expect(stats.requests.sent).toBeLessThan(30);
    expect(stats.steps).toMatchObject({ sent: 0, dropped: 600 });
  });

  it('if an answer begins and never ends', { tags: 'long' }, async () => {
    const begun = await serveRaw((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{'));
    expect((await watch(begun)).stats.steps.sent).toBe(0);
  });

  it('if connections break', { tags: 'long' }, async () => {
    const broken = await serveRaw((socket) => socket.once('data', () => socket.destroy()));
    expect((await watch(broken)).stats.steps.sent).toBe(0);
  });

  it('if every answer is a 500', { tags: 'long' }, async () => {
    const failing = await serve((request, response) => {
      request.resume().on('end', () => response.writeHead(500).end('{"detail":"no"}'));
    });
    expect((await watch(failing)).stats.steps).toMatchObject({ sent: 0, dropped: 6 });
  });

  it('if answers come late, and it waits for none of them', { tags: 'long' }, async () => {
    const held: (() => void)[] = [];
    let last = 0;
    onTestFinished(() => {
      onTurn = () => {};
    });
    onTurn = (turn) => {
      if (turn < 5) return;
      // Answers arrive only when both agents are at their last turn.
      last += 1;
      if (last === 2) for (const answer of held.splice(0)) answer();
    };
    const late = await serve((request, response) => {
      const answer = () => void response.end('{"fired":[],"traces":[]}');
      request.resume().on('end', () => {
        if (last === 2 || request.url === '/v1/traces/retrieve') answer();
        else held.push(answer);
      });
    });
    const { stats } = await watch(late, [], PATIENT);
    expect(stats.steps).toMatchObject({ sent: 6, dropped: 0, queued: 0 });
  });

  it('if some answers are a 429, and then all steps are stored', { tags: 'long' }, async () => {
    let answered = 0;
    const limited = await serve((request, response) => {
      answered += 1;
      const status = answered % 3 === 0 ? 429 : 200;
      const answer = () => response.writeHead(status, { 'retry-after': '0' }).end('{"fired":[],"traces":[]}');
      request.resume().on('end', answer);
    });
    const { stats, stderr } = await watch(limited, [], PATIENT);
    expect(stats.steps).toMatchObject({ sent: 6, dropped: 0, queued: 0 });
    expect(warnings(stderr)).toEqual([]);
  });

  it('if every answer is a 429', { tags: 'long' }, async () => {
    const limited = await serve((request, response) => {
      const headers = { 'retry-after': '1' };
      request.resume().on('end', () => response.writeHead(429, headers).end('{"detail":"slow"}'));
    });
    expect((await watch(limited)).stats.steps).toMatchObject({ sent: 0, dropped: 6 });
  });

  it('if another server answers', { tags: 'long' }, async () => {
    const page = await serve((request, response) => {
      request.resume().on('end', () => response.end('<h1>Welcome</h1>'));
    });
    expect((await watch(page)).stats.steps.sent).toBe(0);
    const noise = await serveRaw((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
    expect((await watch(noise)).stats.steps.sent).toBe(0);
  });

  it('with a key that the service does not know, and warns once', { tags: 'long' }, async () => {
    const { stats, stderr } = await watch(service.url, [], { ...PATIENT, SVC_API_KEY: 'unknown' });
    expect(stats.steps).toMatchObject({ sent: 0, dropped: 6 });
    expect(warnings(stderr)).toEqual(['UNDERSTUDY_UNAUTHORIZED']);
    expect(stderr).not.toContain('unknown');
  });

  it('if the service dies during the run', async () => {
    let answered = 0;
    const dying = createServer((request, response) => {
      request.resume().on('end', () => {
        response.end('{"fired":[],"traces":[]}');
        answered += 1;
        if (answered < 4) return;
        dying.close();
        dying.closeAllConnections();
      });
    });
    const { stats } = await watch(await listen(dying), ['--steps', '40']);
    expect(stats.steps.sent).toBeLessThanOrEqual(4);
    expect(stats.steps.logged).toBe(240);
  });

  it('if the clock jumps', { tags: 'long' }, async () => {
    const { stats } = await watch(service.url, ['--jumping'], { ...PATIENT, RUN_ID: 'jumping' });
    expect(stats.steps).toMatchObject({ sent: 6, dropped: 0 });
  });

  it('if it is killed, and flushed steps are stored', async () => {
    const { code } = await watch(service.url, ['--killed', 'flushed'], { ...PATIENT, RUN_ID: 'killed' });
    expect(code).toBe('SIGKILL');
    expect(await readSteps('killed')).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await service.readRun('killed', 'failure: Killed')).toMatchObject({ status_code: 200, steps: 6 });
  });

  it('if it is killed while sending, and its first steps are stored', {
    tags: 'long',
  }, async () => {
    const args = ['--killed', 'at once', '--steps', '200'];
    await watch(service.url, args, { ...PATIENT, RUN_ID: 'cut' });
    const indexes = await readSteps('cut');
    expect(indexes).toEqual(Array.from(indexes, (_, at) => at));
  });

  it('if it ends in the middle', { tags: 'long' }, async () => {
    const { stats } = await watch(service.url, ['--exiting'], { ...PATIENT, RUN_ID: 'exiting' });
    expect(stats.runs).toEqual({ started: 1, finished: 1 });
  });

  it('with a step of ten million characters, which is cut with a note', { tags: 'long' }, async () => {
    const args = ['--size', '10000000', '--turns', '2'];
    const { stats, stderr } = await watch(service.url, args, { ...PATIENT, RUN_ID: 'long' });
    expect(stats.steps).toMatchObject({ sent: 2, dropped: 0, truncated: 2 });
    expect(warnings(stderr)).toEqual(['UNDERSTUDY_TRUNCATED']);
    expect(stderr).toContain('observation has 10000000 characters, of which 131072 are kept');
  });

  it('with a million steps, of which those beyond the queue are dropped', { tags: 'long' }, async () => {
    const dead = await serveRaw(() => {});
    const { stats, stderr } = await watch(dead, ['--turns', '10', '--steps', '100000']);
    expect(stats.steps).toMatchObject({ logged: 1_000_000, sent: 0, dropped: 1_000_000 });
    expect(warnings(stderr)).toEqual(['UNDERSTUDY_QUEUE_FULL']);
  });
});
