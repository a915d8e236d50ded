/**
 * Ways in which an agent's process can end: what the service learns about the run, and that the client does not
 * change how the process ends.
 */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { UNREACHABLE } from '../fixtures/raw-upstream.ts';
import { longFrom } from '../long-parts.ts';
import { startService } from './scripted-service.ts';

const AGENT = new URL('ending-agent.ts', import.meta.url);

interface Ended {
  code: unknown;
  stdout: string;
  stderr: string;
}

function runAgent(...argv: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [fileURLToPath(AGENT), ...argv], (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

describe('at the end of the process the service learns', () => {
  for (const [at, [what, way, outcome, code]] of (
    [
      ['an uncaught exception', 'timer', 'failure: TypeError', 1],
      ['an unhandled rejection', 'rejection', 'failure: TypeError', 1],
      ['an exception after which an own listener exits', 'caught', 'failure: TypeError', 7],
      ['an exception that leaves the run, and process.exit', 'thrown', 'failure: TypeError', 4],
      ['process.exit within the run', 'exit', 'failure: ProcessExit', 3],
      ['an exception that an own listener survives', 'survived', 'success', 0],
    ] as const
  ).entries()) {
    it(`of ${what}`, longFrom(at, 1), async () => {
      const service = await startService(200, {});
      const ended = await runAgent(way, service.url);
      expect(ended).toEqual(await runAgent(way));
      expect(ended.code).toBe(code);
      const finishes = service.asked.filter(({ path }) => path.endsWith('/finish'));
      expect(finishes.map(({ body }) => body)).toEqual([{ outcome }]);
      // Requests in progress at the end are sent again, and the service counts them once.
      const paths = [...new Set(service.asked.map(({ path }) => path))];
      expect(paths).toEqual(['/v1/monitor/runs', '/v1/monitor/runs/r/steps', '/v1/monitor/runs/r/finish']);
    });
  }

  it('of an exception that ends a worker thread', longFrom(1, 1), async () => {
    const service = await startService(200, {});
    const worker = new Worker(AGENT, { argv: ['timer', service.url] });
    const [thrown] = await once(worker, 'error');
    expect(thrown).toBeInstanceOf(TypeError);
    const { path, body } = service.asked.at(-1)!;
    expect({ path, body }).toEqual({
      path: '/v1/monitor/runs/r/finish',
      body: { outcome: 'failure: TypeError' },
    });
  });
});

it(
  'the process ends in the same way with and without a client, also if the service does not answer or does not exist',
  longFrom(1, 1),
  async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const alone = await runAgent('unanswered');
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    expect(await runAgent('unanswered', url)).toEqual(alone);
    expect(await runAgent('timer', UNREACHABLE)).toEqual(alone);
  },
);
