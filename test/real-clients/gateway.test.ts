/**
 * Whole clients through the gateway by base URL: they do their work, every exchange is captured, and the runs are those
 * that the clients name. The model is a fake, the gateway a separate process.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { summarizeRun } from '../../src/captures/inspect.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { CliChild } from '../cli/child.ts';
import { flush, readStats } from '../fixtures/capture-gateway.ts';
import { makeFolder } from '../storage/folder.ts';
import { ClientHome } from './client-session.ts';
import { gatewayClients } from './gateway-client.ts';

interface Started {
  provider: FakeProvider;
  url: string;
  home: ClientHome;
  /** Opens everything that was captured. */
  read(): Promise<CaptureReader>;
}

async function start(script: Script): Promise<Started> {
  const provider = await startFakeProvider({ script });
  onTestFinished(() => provider.close());
  const home = new ClientHome();
  onTestFinished(() => home[Symbol.dispose]());
  const folder = makeFolder();
  const db = join(folder, 'capture.mdb');
  const child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: { GW_UPSTREAM_BASE: provider.url, GW_GEMINI_BASE: provider.url, DATA_DIR: folder },
  });
  onTestFinished(async () => {
    await child[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });
  const [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
  const read = async () => {
    await flush(url);
    const { exchanges } = await readStats(url);
    expect(exchanges).toMatchObject({
      attempted: provider.requests.length,
      captured: provider.requests.length,
      dropped: 0,
    });
    const reader = CaptureReader.open(db);
    onTestFinished(() => reader.close());
    return reader;
  };
  return { provider, url, home, read };
}

const valuesOf = ({ requests }: FakeProvider, name: string): (string | undefined)[] =>
  requests.map(
    ({ raw_headers }) => raw_headers[raw_headers.findIndex((header) => header.toLowerCase() === name) + 1],
  );

const clients = await gatewayClients();
for (const client of clients) {
  describe.skipIf(client.installed.entry === null)(`${client.name} ${client.installed.needed}`, () => {
    it('works through the gateway, and is captured as the run that it names', async () => {
      const { provider, url, home, read } = await start(({ tools, tool_results }) => {
        if (tools.length === 0) return { text: 'Where it is' };
        return tool_results.length === 0
          ? { text: 'Let me look.', tool_calls: [client.shell('echo found')] }
          : { text: 'It is here.' };
      });
      const session = await client.ask(home, 'Where is it?', url);
      expect(session, session.stderr).toMatchObject({ code: 0, answer: 'It is here.' });
      const reader = await read();
      const summaries = [...reader.summaries()];
      const own = summaries.filter(({ run_kind }) => run_kind === undefined);
      expect(own).toMatchObject([
        { kind: 'turn', status: 200 },
        { kind: 'turn', status: 200 },
      ]);
      const run = client.session_header === null ? `conv_${own[0]!.id}` : session.id;
      expect(own.map(({ run_id }) => run_id)).toEqual([run, run]);
      // The headers that name the run reach the provider unchanged.
      if (client.session_header !== null)
        expect(new Set(valuesOf(provider, client.session_header))).toEqual(new Set([session.id]));
      expect(summarizeRun(reader, run)).toMatchObject({
        turns: 2,
        errors: 0,
        aborted: 0,
        gaps: [],
        golden: client.is_provable,
        reasons: client.is_provable ? [] : [{ code: 'shape' }],
      });
      for (const side of summaries.filter(({ run_kind }) => run_kind !== undefined)) {
        expect(side).toMatchObject({ run_id: `${run}:title`, run_kind: 'title', parent_run_id: run });
        expect(summarizeRun(reader, side.run_id!)).toMatchObject({ golden: false });
      }
      if (client.name === 'opencode') expect(summaries).toHaveLength(3);
    });
  });
}

const claude = clients[0]!;
describe.skipIf(claude.installed.entry === null)(`claude-code ${claude.installed.needed}`, () => {
  it('has a sub-agent as a child run, which can be golden by itself', async () => {
    const agent = { description: 'Looks', prompt: 'Look for it.', subagent_type: 'general-purpose' };
    const asked = [
      { name: 'Agent', input: { ...agent, run_in_background: false } },
      claude.shell('echo found'),
    ];
    const { url, home, read } = await start(({ calls_before }) => {
      const call = asked[calls_before];
      return call === undefined ? { text: 'It is here.' } : { tool_calls: [call] };
    });
    const session = await claude.ask(home, 'Where is it?', url);
    expect(session).toMatchObject({ code: 0, answer: 'It is here.' });
    const reader = await read();
    const runs = [...reader.summaries()].map(({ run_id }) => run_id!);
    const child = runs[1]!;
    expect(runs).toEqual([session.id, child, child, session.id]);
    expect(child).toMatch(new RegExp(`^${session.id}:\\w+$`));
    expect(summarizeRun(reader, child)).toMatchObject({
      kind: 'subagent',
      session_id: session.id,
      parent_run_id: session.id,
      golden: true,
    });
    const { turns, reasons } = summarizeRun(reader, session.id)!;
    expect([turns, reasons]).toEqual([2, []]);
  });
});
