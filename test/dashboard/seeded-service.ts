/** A whole service with content for every screen: the demo's captured runs, runs of /v1, keys, projects and users. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runAgent } from '../../src/demo/agent.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { createStory, TASK } from '../../src/demo/story.ts';
import { Workspace } from '../../src/demo/workspace.ts';
import { runHere } from '../cli/here.ts';
import { findFreePort } from '../fixtures/free-port.ts';
import { WholeService } from '../fixtures/whole-service.ts';

export const RUN_ID = 'demo';

export class SeededService {
  readonly dir = mkdtempSync(join(tmpdir(), 'understudy-dashboard-'));
  /** Decides the provider's answers. A test may replace it at any time. */
  script: Script = createStory();
  token = '';
  org_id = '';
  #provider: FakeProvider | null = null;
  #service: WholeService | null = null;

  get api(): string {
    return this.#service!.api;
  }

  get gateway(): string {
    return this.#service!.gateway;
  }

  async start(env: Record<string, string> = {}): Promise<void> {
    this.#provider ??= await startFakeProvider({ script: (request) => this.script(request) });
    this.#service = new WholeService(this.dir, {
      // Chosen before the start, because a port that the system chose may not be free again after a restart.
      PORT: String(await findFreePort()),
      GW_UPSTREAM_BASE: this.#provider.url,
      RATE_LIMIT_PER_SEC: '100000',
      RATE_LIMIT_BURST: '100000',
      ...env,
    });
    await this.#service.start();
    if (this.token !== '') return;
    const made = await runHere(['token', '--owner'], { DATA_DIR: this.dir, AUTH_DB_URL: 'embedded:' });
    this.token = made.stdout.trim();
    const booted = await this.call('GET', '/auth/bootstrap');
    this.org_id = (booted as { organizations: { id: string }[] }).organizations[0]!.id;
  }

  /** Stops the service, and starts it again on the same ports, so that an open page can continue. */
  restart(env: Record<string, string> = {}): Promise<void> {
    const { port } = new URL(this.api);
    const { port: gateway } = new URL(this.gateway);
    return this.#service!.stop().then(() => this.start({ ...env, PORT: port, GW_PORT: gateway }));
  }

  /** Runs the demo's agent through the gateway, and flushes the captures. */
  async captureRun(run_id = RUN_ID, task = TASK): Promise<void> {
    const workspace = await Workspace.create();
    try {
      await runAgent({ base_url: this.gateway, run_id, task, workspace, report: () => {} });
      await fetch(`${this.gateway}/__gw/flush`, { method: 'POST' });
    } finally {
      await workspace.remove();
    }
  }

  /**
   * Sends a request of the Messages API through the gateway, and flushes the captures.
   * @param run_id the label; empty: none
   */
  async capture(run_id: string, body: object, headers: Record<string, string> = {}): Promise<void> {
    const named = run_id === '' ? {} : { 'x-svc-run': run_id };
    const response = await fetch(`${this.gateway}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': 'no-key-needed', ...named, ...headers },
      body: JSON.stringify({ model: 'claude-of-no-price', max_tokens: 100, ...body }),
    });
    await response.arrayBuffer();
    await fetch(`${this.gateway}/__gw/flush`, { method: 'POST' });
  }

  async call(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(this.api + path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service?.[Symbol.asyncDispose]();
    await this.#provider?.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export const SESSION = 'session-of-a-coding-agent';

/** Captures a session of Claude Code, identified by its headers: its own run, a sub-agent and a side call. */
export async function captureSession(service: SeededService): Promise<void> {
  const session = { 'x-claude-code-session-id': SESSION };
  const tools = [{ name: 'read', description: 'Reads a file', input_schema: { type: 'object' } }];
  const ask = (text: string) => ({ messages: [{ role: 'user', content: text }] });
  service.script = () => ({ text: 'Done.' });
  await service.capture('', { ...ask('Move the parser into modules'), tools }, session);
  await service.capture(
    '',
    { ...ask('Where is parse() called?'), tools },
    {
      ...session,
      'x-claude-code-agent-id': 'agent-of-the-session',
    },
  );
  await service.capture('', ask('Name this session'), session);
}
