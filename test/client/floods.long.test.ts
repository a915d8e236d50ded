/**
 * Agents that log a million steps with different texts, a gigabyte in total, while the service does not answer or
 * cannot keep up. The library's memory is bounded, and the agent behaves as without the library.
 */
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';

const AGENT = fileURLToPath(new URL('../fixtures/watched-agent.ts', import.meta.url));
const PYTHON = fileURLToPath(new URL('../../clients/python', import.meta.url));
const run = promisify(execFile);

let service: ClientService;
beforeAll(async () => {
  service = await ClientService.start({ RATE_LIMIT_PER_SEC: '1000000' });
});
afterAll(() => service.stop());

/** A service that accepts connections but never answers. */
async function startSilence(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => sockets.add(socket.on('error', () => {})));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return listen(server);
}

/** Starts the provider to which the agent sends a request at each turn. */
async function startProvider(): Promise<string> {
  // Connections are never closed as idle, because the agent is busy for long times between requests.
  const server = createHttpServer({ keepAliveTimeout: 0 }, (request, response) => {
    request.resume().on('end', () => response.end('answer'));
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return listen(server);
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a million steps', () => {
  it.each(['silent', 'there'])(
    'do not exceed the heap of 96 MB of a Node agent, with a service that is %s',
    async (how) => {
      const url = how === 'there' ? service.url : await startSilence();
      const argv = ['--max-old-space-size=96', AGENT, '--provider', await startProvider()];
      argv.push('--turns', '10', '--steps', '100000', '--size', '1000');
      const env = { ...process.env, TIMEOUT_MS: '1000', EXIT_FLUSH_MS: '1000' };
      const watched = { WATCHED: '1', SVC_BASE_URL: url, SVC_API_KEY: CLIENT_KEY, RUN_ID: `flood-${how}` };
      const [alone, ended] = await Promise.all([
        run(process.execPath, argv, { env }),
        run(process.execPath, argv, { env: { ...env, ...watched } }),
      ]);
      expect(ended.stdout).toBe(alone.stdout);
      const { logged, sent, dropped, queued } = JSON.parse(/^STATS (.*)$/m.exec(ended.stderr)![1]!).steps;
      expect({ logged, all: sent + dropped + queued }).toEqual({ logged: 1_000_000, all: 1_000_000 });
      if (how === 'silent') expect(sent).toBe(0);
      else expect(sent).toBeGreaterThan(0);
    },
  );

  const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']);
  it.skipIf(python.status !== 0)('cost a Python agent less than 150 MB (needs python3)', async () => {
    const script = `
import resource, sys
from understudy_gateway import Understudy
u = Understudy(sys.argv[2], sys.argv[1], timeout=1, on_warning=lambda _: None) if len(sys.argv) > 1 else None
def work(run):
    total = 0
    for index in range(1_000_000):
        total += index
        text = f"{index} " * 128
        if run is not None:
            run.step(action="count", observation=text)
    return total
if u is None:
    print(work(None))
else:
    with u.run(task="count") as run:
        print(work(run))
    u.close(0)
    steps = u.stats()["steps"]
    assert steps["logged"] == 1_000_000 == steps["sent"] + steps["dropped"], steps
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
`;
    const options = { cwd: PYTHON, env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' } };
    const alone = await run('python3', ['-c', script], options);
    for (const url of [await startSilence(), service.url]) {
      const watched = await run('python3', ['-c', script, url, CLIENT_KEY], options);
      expect(watched.stdout).toBe(alone.stdout);
      expect(Number(watched.stderr) - Number(alone.stderr)).toBeLessThan(150_000);
    }
  });
});
