/**
 * nginx, Caddy and Envoy with the configurations of deploy/, if they are installed: a run stays on its box, no request
 * is lost when a box stops, and requests of agents reach the gateway unchanged.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { findFreePort } from '../fixtures/free-port.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { BALANCERS, hasBalancer, PUBLIC_NAME, RunningBalancer } from './balancers.ts';

/** A fake box whose answers contain its name and the received request. */
class NamedBox {
  readonly name: string;
  readonly port: number;
  isReady = true;
  #server: Server | null = null;

  constructor(name: string, port: number) {
    this.name = name;
    this.port = port;
  }

  async open(): Promise<void> {
    this.#server = createServer((incoming, outgoing) => this.#answer(incoming, outgoing));
    await new Promise<void>((resolve) => this.#server!.listen(this.port, '127.0.0.1', resolve));
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  #answer(incoming: IncomingMessage, outgoing: ServerResponse): void {
    incoming.resume();
    if (incoming.url === '/ready' || incoming.url === '/__gw/ready') {
      outgoing.writeHead(this.isReady ? 200 : 503).end();
      return;
    }
    if (incoming.url === '/v1/monitor/stream') {
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
      outgoing.write('data: first\n\n');
      return;
    }
    outgoing.writeHead(200, { 'content-type': 'application/json' });
    outgoing.end(JSON.stringify({ box: this.name, path: incoming.url, headers: incoming.rawHeaders }));
  }
}

interface Answer {
  box: string;
  path: string;
  headers: string[];
}

for (const balancer of BALANCERS)
  describe.skipIf(!hasBalancer(balancer))(
    `${balancer.name} with deploy/${balancer.file}, where it is installed`,
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'balancer-'));
      const boxes = new Map<string, NamedBox>();
      const agent = new Agent({ connect: { servername: PUBLIC_NAME, rejectUnauthorized: false } });
      let running: RunningBalancer;

      beforeAll(async () => {
        for (const name of ['api-1', 'api-2', 'gateway-1', 'gateway-2']) {
          const box = new NamedBox(name, await findFreePort());
          await box.open();
          boxes.set(name, box);
        }
        const ports = new Map([...boxes].map(([name, { port }]) => [name, port]));
        running = await RunningBalancer.start(balancer, folder, ports);
        const everyRun = async () => [...new Set((await askRuns()).values())].sort();
        const isUp = async () => {
          expect(await everyRun().catch(() => running.said)).toEqual(['api-1', 'api-2']);
          expect((await askGateway('/x', {})).status).toBe(200);
        };
        await vi.waitFor(isUp, { timeout: PATIENCE_MS });
      });
      afterAll(async () => {
        await agent.close();
        await running?.stop();
        for (const box of boxes.values()) await box.close();
        rmSync(folder, { recursive: true, force: true });
      });

      async function ask(method: 'GET' | 'POST', path: string, headers: Record<string, string> = {}) {
        const { statusCode, body } = await request(`https://127.0.0.1:${running.api_port}${path}`, {
          dispatcher: agent,
          method,
          headers: { host: PUBLIC_NAME, authorization: 'Bearer key', ...headers },
          ...(method === 'POST' ? { body: '{"a":1}' } : {}),
        });
        const text = await body.text();
        if (statusCode !== 200) throw new Error(`${statusCode}: ${text}`);
        return JSON.parse(text) as Answer;
      }

      async function askGateway(path: string, headers: Record<string, string>) {
        const { statusCode, body } = await request(`http://127.0.0.1:${running.gateway_port}${path}`, {
          method: 'POST',
          headers: { host: 'gateway:8787', ...headers },
          body: 'x',
        });
        return { status: statusCode, text: await body.text() };
      }

      /** @returns for each run, the box that got its steps */
      async function askRuns(): Promise<Map<string, string>> {
        const found = new Map<string, string>();
        for (let at = 0; at < 16; at++) {
          const path = `/v1/monitor/runs/run-${at}/steps`;
          found.set(`run-${at}`, (await ask('POST', path)).box);
        }
        return found;
      }

      it('sends every request about a run to the same box', async () => {
        for (const [run, box] of await askRuns()) {
          const answers = [
            await ask('GET', `/v1/monitor/runs/${run}?fields=steps`, { authorization: 'Bearer other' }),
            await ask('POST', `/v1/monitor/runs/${run}/finish`),
            await ask('GET', `/v1/runs/${run}/marks`),
            await ask('POST', '/v1/monitor/runs', { 'x-svc-run': run }),
          ];
          expect(answers.map((answer) => answer.box)).toEqual([box, box, box, box]);
          expect(answers[0]!.path).toBe(`/v1/monitor/runs/${run}?fields=steps`);
        }
      });

      it('spreads other requests by credential', async () => {
        const found = new Set<string>();
        for (let at = 0; at < 16; at++) {
          const headers = { authorization: `Bearer key-${at}` };
          const { box } = await ask('POST', '/v1/traces/retrieve', headers);
          expect((await ask('GET', '/v1/findings', headers)).box).toBe(box);
          found.add(box);
        }
        expect([...found].sort()).toEqual(['api-1', 'api-2']);
      });

      it('adds x-forwarded-for, so that /metrics requires a key', async () => {
        const { headers } = await ask('GET', '/metrics');
        expect(headers.map((word) => word.toLowerCase())).toContain('x-forwarded-for');
      });

      it('sends the runs of a stopped box to the other box, and back when the box returns', async () => {
        const before = await askRuns();
        await boxes.get('api-1')!.close();
        expect(new Set((await askRuns()).values())).toEqual(new Set(['api-2']));
        await boxes.get('api-1')!.open();
        await expect.poll(async () => [...(await askRuns())]).toEqual([...before]);
      });

      it.skipIf(!balancer.asks)('sends nothing to a box that reports that it is not ready', async () => {
        const before = await askRuns();
        const box = boxes.get('api-2')!;
        box.isReady = false;
        await expect.poll(async () => [...new Set((await askRuns()).values())]).toEqual(['api-1']);
        box.isReady = true;
        await expect.poll(async () => [...(await askRuns())]).toEqual([...before]);
      });

      it('forwards events of the live stream at once', async () => {
        const { statusCode, body } = await request(
          `https://127.0.0.1:${running.api_port}/v1/monitor/stream`,
          {
            dispatcher: agent,
            headers: { host: PUBLIC_NAME },
          },
        );
        expect(statusCode).toBe(200);
        for await (const chunk of body) {
          expect(String(chunk)).toContain('first');
          break;
        }
      });

      it('sends requests of agents to a gateway unchanged, all of a run to the same one', async () => {
        const found = new Set<string>();
        for (let at = 0; at < 16; at++) {
          const sent = { 'x-svc-run': `run-${at}`, 'X-Odd-Name': 'odd', Authorization: 'Bearer sk-1' };
          const { status, text } = await askGateway('/v1/messages?beta=true', sent);
          expect(status).toBe(200);
          const { box, path, headers } = JSON.parse(text) as Answer;
          found.add(box);
          expect(path).toBe('/v1/messages?beta=true');
          const names = headers.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
          const hops = ['connection', 'content-length', 'host'];
          expect(names.filter((name) => !hops.includes(name)).sort()).toEqual([
            'authorization',
            'x-odd-name',
            'x-svc-run',
          ]);
          expect(headers[headers.findIndex((name) => name.toLowerCase() === 'host') + 1]).toBe(
            'gateway:8787',
          );
        }
        expect([...found].sort()).toEqual(['gateway-1', 'gateway-2']);
      });

      it('does not forward the gateways’ own routes, which need no credential', async () => {
        for (const path of ['/__gw/stats', '/__gw/writer/kill', '/__gw', '/__gw/stats?a=b'])
          expect((await askGateway(path, {})).status).toBe(404);
      });
    },
  );
