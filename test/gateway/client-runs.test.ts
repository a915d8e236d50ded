/**
 * From a client's headers to its run: a gateway in a separate process passes the headers on unchanged, and the command
 * line shows session, child runs and kind.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import { runHere } from '../cli/here.ts';
import { flush, startGatewayProcess } from '../fixtures/capture-gateway.ts';
import { makeFolder } from '../storage/folder.ts';

const SESSION = 'd60530b4-a57a-44c3-9a84-b36ea3e98f78';
const AGENT = 'a69baf915666a168d';

it('sessions are shown with their agents and side calls, and so are runs of the operator’s header', async () => {
  const provider = await startFakeProvider({ script: () => ({ text: 'It is here.' }) });
  onTestFinished(() => provider.close());
  const folder = makeFolder();
  const db = join(folder, 'capture.mdb');
  const started = await startGatewayProcess(provider.url, folder, [], { SVC_RUN_HEADERS: 'X-Acme-Run' });
  const { url } = started;
  onTestFinished(async () => {
    await started[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });
  const ask = async (headers: Record<string, string>, more: object = { tools: [{ name: 'Bash' }] }) => {
    const answer = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': 'provider-key', ...headers },
      body: JSON.stringify({
        model: 'claude-demo-large',
        max_tokens: 10,
        messages: [{ role: 'user', content: 'Where is it?' }],
        ...more,
      }),
    });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
  };
  const session = { 'x-claude-code-session-id': SESSION };
  await ask(session);
  await ask({ ...session, 'x-claude-code-agent-id': AGENT });
  await ask(session, { system: 'Generate a concise title for this session.' });
  await ask({ ...session, 'x-acme-run': 'nightly-7' });
  await ask({ ...session, 'x-acme-run': 'nightly-7', 'x-svc-run': 'mine', 'x-svc-seq': 'two' });
  await flush(url);

  const passed = provider.requests.map(({ raw_headers }) =>
    raw_headers.filter((_, at) => /^x-(?:claude|acme|svc)/.test(raw_headers[at - (at % 2)]!)),
  );
  expect(passed).toEqual([
    ['x-claude-code-session-id', SESSION],
    ['x-claude-code-session-id', SESSION, 'x-claude-code-agent-id', AGENT],
    ['x-claude-code-session-id', SESSION],
    ['x-claude-code-session-id', SESSION, 'x-acme-run', 'nightly-7'],
    ['x-claude-code-session-id', SESSION, 'x-acme-run', 'nightly-7'],
  ]);

  const inspect = async (...words: string[]) => (await runHere(['inspect', '--db', db, ...words])).stdout;
  const { runs } = JSON.parse(await inspect('--json'));
  expect(runs).toMatchObject([
    { run_id: SESSION, session_id: SESSION, parent_run_id: null, kind: null, golden: true },
    {
      run_id: `${SESSION}:${AGENT}`,
      session_id: SESSION,
      parent_run_id: SESSION,
      kind: 'subagent',
      golden: true,
    },
    { run_id: `${SESSION}:title`, session_id: SESSION, parent_run_id: SESSION, kind: 'title', golden: false },
    { run_id: 'nightly-7', session_id: 'nightly-7', kind: null, golden: true },
    { run_id: 'mine', session_id: null, golden: false, reasons: [{ code: 'seq_gap' }] },
  ]);
  expect(await inspect()).toMatch(/RUN +KIND +TURNS/);
  const shown = await inspect('--run', SESSION);
  expect(shown).toContain(`${SESSION}:${AGENT} (subagent)`);
  expect(shown).toContain(`${SESSION}:title (title)`);
  expect(await inspect('--run', `${SESSION}:title`)).toContain(`${SESSION} (title)`);
  const { stdout } = await runHere(['trace', '--db', db, '--run', `${SESSION}:title`]);
  expect(JSON.parse(stdout)).toMatchObject({ session_id: SESSION, parent_run_id: SESSION, kind: 'title' });
});
