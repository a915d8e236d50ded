/**
 * Whole clients through the proxy: they only know `HTTPS_PROXY` and the authority to trust, use their providers' own
 * addresses, do their work and are captured. The model is a fake behind TLS. The service is a separate process, in
 * which these addresses lead to the fake.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { flush, readStats } from '../fixtures/capture-gateway.ts';
import { issueCertificate } from '../fixtures/issued-certificate.ts';
import { ClientHome, readJsonLines, runClient } from './client-session.ts';
import { installClient } from './installed-client.ts';
import { claudeCode, codex } from './known-client.ts';

/** In the service's process, the addresses of providers lead to the test. */
const LEADS_ELSEWHERE = `import { Socket } from 'node:net';
const real = Socket.prototype.connect;
const hosts = JSON.parse(process.env.TEST_HOSTS);
Socket.prototype.connect = function (...words) {
  const options = Array.isArray(words[0]) ? words[0][0] : words[0];
  if (options !== null && typeof options === 'object' && Object.hasOwn(hosts, options.host))
    Object.assign(options, { port: hosts[options.host], host: '127.0.0.1' });
  return real.apply(this, words);
};
`;
const HOSTS = ['api.anthropic.com', 'api.openai.com', 'generativelanguage.googleapis.com'];

const folder = mkdtempSync(join(tmpdir(), 'understudy-proxied-'));
const env: Record<string, string> = {};
const fronts: ReturnType<typeof createServer>[] = [];
let provider: FakeProvider;
let child: CliChild;
let gateway = '';
/** What `--trust` prints. */
const trusted: Record<string, string> = {};

beforeAll(async () => {
  provider = await startFakeProvider({
    script: ({ tools, tool_results }) => {
      if (tools.length === 0) return { text: 'Where it is' };
      if (tool_results.length > 0) return { text: 'It is here.' };
      const name = ['Bash', 'exec_command', 'run_shell_command', 'bash'].find((tool) =>
        tools.includes(tool),
      )!;
      const command = 'echo found';
      const input = name === 'exec_command' ? { cmd: command } : { command, description: 'Runs it.' };
      return { text: 'Let me look.', tool_calls: [{ name, input }] };
    },
  });
  const ports: Record<string, number> = {};
  const authorities: string[] = [];
  for (const host of HOSTS) {
    const { cert, key } = await issueCertificate(host, [-1, 30], host);
    authorities.push(cert);
    const front = createServer({ cert, key }, (socket) => {
      const behind = connect(Number(new URL(provider.url).port), '127.0.0.1');
      socket.on('error', () => behind.destroy());
      behind.on('error', () => socket.destroy());
      socket.pipe(behind).pipe(socket);
    }).listen(0, '127.0.0.1');
    await once(front, 'listening');
    fronts.push(front);
    ports[host] = (front.address() as AddressInfo).port;
  }
  const preload = join(folder, 'leads-elsewhere.mjs');
  writeFileSync(preload, LEADS_ELSEWHERE);
  writeFileSync(join(folder, 'authorities.pem'), authorities.join('\n'));
  Object.assign(env, {
    DATA_DIR: join(folder, 'data'),
    GW_PORT: '0',
    // The clients reach no other host.
    GW_PROXY_BLIND: 'off',
    GW_UPSTREAM_CA: join(folder, 'authorities.pem'),
    TEST_HOSTS: JSON.stringify(ports),
    NODE_OPTIONS: `--import ${pathToFileURL(preload).href}`,
  });
  child = new CliChild(['proxy', '--port', '0'], { env });
  const [, url = ''] = await child.waitForOutput(/HTTPS_PROXY=(http:\/\/\S+)/);
  gateway = /^ {2}Gateway +(http:\/\/\S+) {2}->/m.exec(child.stdout)![1]!;
  const { stdout } = await runHere(['proxy', '--trust'], {
    DATA_DIR: env.DATA_DIR!,
    GW_PROXY_PORT: new URL(url).port,
  });
  for (const [, name = '', value = ''] of stdout.matchAll(/(\w+)=(\S+)/g)) trusted[name] = value;
});

afterAll(async () => {
  await child[Symbol.asyncDispose]();
  for (const front of fronts) front.close();
  await provider.close();
  rmSync(folder, { recursive: true });
});

const [claude, openai, gemini, opencode] = await Promise.all([
  claudeCode(),
  codex(),
  installClient('gemini-cli'),
  installClient('opencode'),
]);

interface ProxiedClient {
  name: string;
  installed: { entry: string | null; needed: string };
  provider: string;
  shape: string;
  ask(home: ClientHome): Promise<{ code: number | null; answer: string; stderr: string }>;
}

const clients: ProxiedClient[] = [
  {
    ...claude,
    provider: 'anthropic',
    shape: 'messages',
    ask: (home) => claude.ask(home, 'Where is it?', 'https://api.anthropic.com', trusted),
  },
  {
    ...openai,
    provider: 'openai',
    shape: 'responses',
    ask: (home) => openai.ask(home, 'Where is it?', 'https://api.openai.com', trusted),
  },
  {
    name: 'gemini-cli',
    installed: gemini,
    provider: 'gemini',
    shape: 'gemini',
    ask: async (home) => {
      const words = ['-p', 'Where is it?', '--output-format', 'stream-json', '--yolo', '--skip-trust'];
      const end = await runClient(gemini, home, [...words, '-m', 'gemini-2.5-pro'], {
        GEMINI_API_KEY: 'provider-key',
        GEMINI_DEFAULT_AUTH_TYPE: 'gemini-api-key',
        ...trusted,
      });
      const said = readJsonLines(end.stdout).filter(({ role }) => role === 'assistant');
      const answer = said.map(({ content }) => content).join('');
      return { ...end, answer: answer.slice(answer.indexOf('It is here.')) };
    },
  },
  {
    // opencode knows the provider's address. The test gives it only a key.
    name: 'opencode',
    installed: opencode,
    provider: 'anthropic',
    shape: 'messages',
    ask: async (home) => {
      const words = [
        'run',
        '--format',
        'json',
        '--auto',
        '-m',
        'anthropic/claude-sonnet-4-5',
        'Where is it?',
      ];
      const end = await runClient(opencode, home, words, {
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        ANTHROPIC_API_KEY: 'provider-key',
        ...trusted,
      });
      const said = readJsonLines(end.stdout).findLast(({ type }) => type === 'text');
      return { ...end, answer: said?.part.text ?? '' };
    },
  },
];

for (const client of clients) {
  describe.skipIf(client.installed.entry === null)(`${client.name} ${client.installed.needed}`, () => {
    it('works through the proxy, and is captured', async () => {
      const before = provider.requests.length;
      const home = new ClientHome();
      try {
        const session = await client.ask(home);
        expect(session, `${session.stderr}\n${child.stderr}`).toMatchObject({
          code: 0,
          answer: 'It is here.',
        });
      } finally {
        home[Symbol.dispose]();
      }
      await flush(gateway);
      const { exchanges } = await readStats(gateway);
      expect(exchanges).toMatchObject({ captured: provider.requests.length, dropped: 0 });
      const reader = CaptureReader.open(join(env.DATA_DIR!, 'capture.mdb'));
      try {
        const turns = [...reader.summaries()].slice(before).filter(({ kind }) => kind === 'turn');
        expect(turns.length).toBeGreaterThanOrEqual(2);
        for (const turn of turns)
          expect(turn).toMatchObject({ status: 200, provider: client.provider, shape: client.shape });
      } finally {
        reader.close();
      }
    });
  });
}
