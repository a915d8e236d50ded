/**
 * The certificate authority of the proxy. The first process makes it, only for some hosts, and it is renewed before it
 * expires. Real files.
 */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer as createTlsServer } from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { findProxyHost, listDomains, readProxyHosts } from '../../src/domain/proxy-host.ts';
import { type Authority, openAuthority, showAuthority } from '../../src/proxy/authority.ts';
import { LeafCertificates } from '../../src/proxy/leaf-certificates.ts';
import { runHere } from '../cli/here.ts';
import { ProxiedService } from '../fixtures/proxied-service.ts';

const NOW = Date.now();
const DAY_MS = 86_400_000;
const DOMAINS = ['api.openai.com', 'openai.azure.com'];

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-authority-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** @returns null if a client that trusts the authority accepts a certificate for this name, otherwise the reason */
async function tryName(authority: Authority, name: string): Promise<string | null> {
  const context = await new LeafCertificates(authority, () => NOW).get(name);
  const server = createTlsServer({ SNICallback: (_name, done) => done(null, context) }).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', ca: authority.cert, servername: name });
  const outcome = await Promise.race([
    once(socket, 'secureConnect').then(() => null),
    new Promise<string>((resolve) => socket.once('error', ({ message }) => resolve(message))),
  ]);
  socket.destroy();
  server.close();
  return outcome;
}

it('the authority signs for its hosts and for no other, even if the key leaks', async () => {
  const authority = await openAuthority(makeFolder(), DOMAINS, NOW);
  expect(await tryName(authority, 'api.openai.com')).toBeNull();
  expect(await tryName(authority, 'mine.openai.azure.com')).toBeNull();
  for (const name of ['example.com', 'openai.com', 'notapi.openai.com', 'azure.com'])
    expect(await tryName(authority, name), name).toMatch(/permitted subtree violation/);
});

it('the authority’s files are readable only for its user, and stay the same when it is opened again', async () => {
  const dir = makeFolder();
  const first = await openAuthority(dir, DOMAINS, NOW);
  for (const name of ['secrets/proxy-ca.key', 'proxy-ca.pem', 'proxy-ca-bundle.pem'])
    expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
  expect((await openAuthority(dir, DOMAINS, NOW)).cert).toBe(first.cert);
  expect(readdirSync(dir, { recursive: true })).toHaveLength(4);
  // The bundle is for clients that trust only this file.
  expect(readFileSync(join(dir, 'proxy-ca-bundle.pem'), 'utf8').match(/BEGIN CERT/g)!.length).toBeGreaterThan(
    50,
  );
});

it('a new certificate of the same key is made for other hosts, and before the old one expires', async () => {
  const dir = makeFolder();
  const first = await openAuthority(dir, DOMAINS, NOW);
  const key = (authority: Authority) =>
    new X509Certificate(authority.cert).publicKey.export({ type: 'spki', format: 'pem' });
  const wider = await openAuthority(dir, [...DOMAINS, 'llm.example.com'], NOW);
  expect(wider.cert).not.toBe(first.cert);
  expect(key(wider)).toBe(key(first));
  // A command with fewer hosts leaves the certificate unchanged.
  expect((await showAuthority(dir, DOMAINS, NOW)).cert).toBe(wider.cert);
  const later = NOW + 611 * DAY_MS;
  const renewed = await openAuthority(dir, [...DOMAINS, 'llm.example.com'], later);
  expect(renewed.cert).not.toBe(wider.cert);
  expect(key(renewed)).toBe(key(first));
  expect(renewed.valid_to_ms - later).toBeGreaterThan(700 * DAY_MS);
  // Clients that still trust the first certificate accept certificates that the key signs now.
  const leaf = new LeafCertificates(renewed, () => NOW);
  expect(await leaf.get('api.openai.com')).toBeTruthy();
  const old = new X509Certificate(first.cert);
  const { publicKey } = await import('node:crypto').then(({ generateKeyPairSync }) =>
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  );
  const { cert } = await renewed.issue(
    'api.openai.com',
    publicKey.export({ type: 'spki', format: 'der' }),
    NOW,
  );
  expect(new X509Certificate(cert).verify(old.publicKey)).toBe(true);
});

it('two simultaneous starts make one authority', async () => {
  const dir = makeFolder();
  const all = await Promise.all(Array.from({ length: 8 }, () => openAuthority(dir, DOMAINS, NOW)));
  const keys = all.map(({ cert }) =>
    new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'pem' }),
  );
  expect(new Set(keys).size).toBe(1);
});

it('an error says what is wrong with the key', async () => {
  const dir = makeFolder();
  await openAuthority(dir, DOMAINS, NOW);
  const file = join(dir, 'secrets', 'proxy-ca.key');
  chmodSync(file, 0o644);
  await expect(openAuthority(dir, DOMAINS, NOW)).rejects.toThrow(
    /other users can read or change .*chmod 600/,
  );
  chmodSync(file, 0o600);
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, 100));
  await expect(openAuthority(dir, DOMAINS, NOW)).rejects.toMatchObject({
    code: 'EAUTHORITY',
    message: expect.stringMatching(/does not contain the key .*restore the file from a backup/),
  });
  // A missing certificate is made again from the key, and a damaged one does not stop the start.
  rmSync(file);
  writeFileSync(join(dir, 'proxy-ca.pem'), 'nothing');
  expect((await openAuthority(dir, DOMAINS, NOW)).cert).toContain('BEGIN CERTIFICATE');
});

it('--trust prints one line for a shell, and the authority survives a kill', {
  tags: 'long',
}, async () => {
  const service = new ProxiedService();
  onTestFinished(() => service[Symbol.asyncDispose]());
  const env = { DATA_DIR: service.data, GW_PROXY_PORT: '8788' };
  const { stdout, stderr, code } = await runHere(['proxy', '--trust'], env);
  expect([code, stdout.split('\n').length]).toEqual([0, 2]);
  expect(stdout).toMatch(
    /^export HTTPS_PROXY=http:\/\/127\.0\.0\.1:8788 NODE_EXTRA_CA_CERTS=\S+proxy-ca\.pem /,
  );
  expect(stdout).toMatch(/SSL_CERT_FILE=\S+proxy-ca-bundle\.pem REQUESTS_CA_BUNDLE=/);
  expect(stderr).toMatch(/SHA-256 [\dA-F:]{95}/);
  await service.start('default');
  const { ca } = service;
  await service.stop('SIGKILL');
  await service.start('default');
  expect(service.ca).toBe(ca);
  expect((await runHere(['proxy', '--trust'], env)).stdout).toBe(stdout);
});

it('a damaged key ends the start with one line', async () => {
  const dir = makeFolder();
  await openAuthority(dir, DOMAINS, NOW);
  writeFileSync(join(dir, 'secrets', 'proxy-ca.key'), 'damaged');
  const { code, stderr } = await runHere(['proxy', '--trust'], { DATA_DIR: dir });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^understudy: \S+proxy-ca\.key does not contain the key .*\n$/);
});

it('a port in use is reported in one line', { tags: 'long' }, async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  onTestFinished(() => void taken.close());
  const service = new ProxiedService();
  onTestFinished(() => service[Symbol.asyncDispose]());
  const { port } = taken.address() as AddressInfo;
  const started = service.start('default', { GW_PROXY_PORT: String(port) }, 'up');
  await expect(started).rejects.toThrow(/understudy: cannot listen on 127\.0\.0\.1:\d+: the port is in use/);
});

it('a host has the provider of its preset or its own entry, and other hosts have none', () => {
  const hosts = readProxyHosts(['default', '*.llm.example.com:8443'])!;
  const providerOf = (name: string, port = 443) => findProxyHost(hosts, name, port)?.provider;
  expect(providerOf('api.anthropic.com')).toBe('anthropic');
  expect(providerOf('mine.openai.azure.com')).toBe('azure');
  expect(providerOf('bedrock-runtime.eu-west-1.amazonaws.com')).toBe('bedrock');
  expect(providerOf('us-east5-aiplatform.googleapis.com')).toBe('vertex');
  expect(providerOf('a.llm.example.com', 8443)).toBe('llm.example.com');
  for (const name of [
    's3.amazonaws.com',
    'openai.azure.com',
    'xapi.anthropic.com',
    'gmail.googleapis.com',
    'llm.example.com',
  ])
    expect(providerOf(name), name).toBeUndefined();
  expect(providerOf('api.anthropic.com', 80)).toBeUndefined();
  expect(listDomains(hosts)).toContain('llm.example.com');
});
