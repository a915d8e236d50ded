/** deploy/ and docs/deploy.md: systemd accepts the units, the variables and alerts exist, and the proxy works. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig, VARIABLE_DEFAULTS } from '../../src/config.ts';
import { readBucketPlace } from '../../src/storage/bucket/bucket-place.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';
import { findFreePort } from '../fixtures/free-port.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'deploy-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('docs/deploy.md names alerts that exist', () => {
  const rules = readdirSync(join(root, 'deploy'))
    .filter((name) => name.endsWith('alerts.yml'))
    .map((name) => read(join('deploy', name)))
    .join('\n');
  const named = [...read('docs/deploy.md').matchAll(/`(Understudy[A-Z]\w+)`/g)].map(([, name]) => name);
  expect(named.length).toBeGreaterThan(5);
  for (const name of named) expect(rules).toContain(`alert: ${name}\n`);
});

it('deploy/compose.yaml mounts existing files and sets existing variables', () => {
  const { services, volumes } = parse(read('deploy/compose.yaml')) as {
    services: Record<string, { environment?: object; volumes: string[] }>;
    volumes: object;
  };
  for (const name of Object.keys(services.understudy!.environment!))
    expect(VARIABLE_DEFAULTS.has(name)).toBe(true);
  for (const mount of Object.values(services).flatMap((service) => service.volumes)) {
    const [from = ''] = mount.split(':');
    if (from.startsWith('.')) expect(() => read(join('deploy', from))).not.toThrow();
    else expect(volumes).toHaveProperty(from);
  }
});

it('deploy/compose-gateways.yaml sends the captures of two gateways to the bucket that the API reads', () => {
  const { services, volumes, secrets } = parse(read('deploy/compose-gateways.yaml'), { merge: true }) as {
    services: Record<
      string,
      { command: string[]; environment: Record<string, string>; volumes: string[]; secrets?: string[] }
    >;
    volumes: object;
    secrets: object;
  };
  const { api, s3, bucket, ...gateways } = services;
  const place = api!.environment.CAPTURE_READ_URL!;
  const found = readBucketPlace(place);
  expect(bucket).toMatchObject({
    entrypoint: [expect.any(String), '-e', expect.stringContaining(`/${found.bucket}'`)],
  });
  expect(new URL(found.endpoint!).hostname).toBe('s3');
  expect(Object.keys(gateways)).toHaveLength(2);
  for (const { command, environment } of Object.values(gateways)) {
    expect(command[0]).toBe('gateway');
    expect(environment.CAPTURE_BUCKET_URL).toBe(place);
    // The API must be able to decrypt what the gateways encrypt.
    expect(environment.DATA_KEY_FILE).toBe(api!.environment.DATA_KEY_FILE);
  }
  expect(new Set([api!, s3!, ...Object.values(gateways)].flatMap((service) => service.volumes)).size).toBe(4);
  for (const service of [api!, ...Object.values(gateways)]) {
    for (const name of Object.keys(service.environment)) expect(VARIABLE_DEFAULTS.has(name), name).toBe(true);
    for (const name of service.secrets!) expect(secrets).toHaveProperty(name);
    for (const mount of service.volumes) expect(volumes).toHaveProperty(mount.split(':')[0]!);
    const env = { ...service.environment, DATA_KEY_FILE: '' };
    expect(() => loadConfig({ listener: 'api' }, env)).not.toThrow();
  }
});

it('the Kubernetes manifests and the chart start the same service as compose, with existing variables', () => {
  const text = read('deploy/kubernetes/understudy.yaml');
  const [, stateful] = parseAllDocuments(text).map((document) => document.toJS());
  const { securityContext, containers } = stateful.spec.template.spec;
  expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
  const [{ args, env, ports, livenessProbe, ...container }] = containers;
  const { services } = parse(read('deploy/compose.yaml'));
  expect(args).toEqual(services.understudy.command);
  expect(ports.map(({ containerPort }: { containerPort: number }) => containerPort)).toEqual([8000, 8787]);
  expect(read('Dockerfile')).toContain(`["node", "${livenessProbe.exec.command[1]}"]`);
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  const values = parse(read('deploy/helm/understudy/values.yaml'));
  for (const name of [...env.map((set: { name: string }) => set.name), ...Object.keys(values.env)])
    expect(VARIABLE_DEFAULTS.has(name), name).toBe(true);
  const template = read('deploy/helm/understudy/templates/understudy.yaml');
  for (const [, path = ''] of template.matchAll(/\.Values\.([\w.]+)/g))
    expect(
      path.split('.').reduce((found, name) => found?.[name], values),
      path,
    ).toBeDefined();
  const { version } = JSON.parse(read('package.json'));
  expect(parse(read('deploy/helm/understudy/Chart.yaml'))).toMatchObject({ version, appVersion: version });
});

const hasCaddy = spawnSync('caddy', ['version']).status === 0;
it.skipIf(!hasCaddy)('deploy/Caddyfile is valid for Caddy, where that is installed', () => {
  const { status, stderr } = spawnSync(
    'caddy',
    ['validate', '--adapter', 'caddyfile', '--config', join(root, 'deploy/Caddyfile')],
    { encoding: 'utf8', env: { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder } },
  );
  expect(status, stderr).toBe(0);
});

const UNITS = [
  'understudy.service',
  'understudy-backup.service',
  'understudy-backup.timer',
  'understudy-follow.service',
];

describe('the systemd units', () => {
  it('set existing variables', () => {
    for (const unit of UNITS)
      for (const [, assignments = ''] of read(join('deploy', unit)).matchAll(/^Environment=(.+)$/gm))
        for (const [, name = ''] of assignments.matchAll(/(\w+)=/g))
          expect(VARIABLE_DEFAULTS.has(name) || ['NODE_ENV', 'BACKUPS', 'PLACE'].includes(name), name).toBe(
            true,
          );
  });

  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
  it.skipIf(!hasSystemd)('are valid for systemd, where that is installed', () => {
    for (const unit of UNITS) {
      const text = read(join('deploy', unit)).replaceAll('/usr/bin/node', process.execPath);
      // The user that the unit names may not exist on this machine.
      writeFileSync(join(folder, unit), text.replace('User=understudy', 'User=root'));
    }
    const { stderr } = spawnSync('systemd-analyze', ['verify', ...UNITS.map((unit) => join(folder, unit))], {
      encoding: 'utf8',
    });
    expect(stderr).not.toContain('understudy');
  });

  it('back up the service’s data, and delete old backups', { tags: 'long' }, async () => {
    const data = join(folder, 'data');
    const backups = join(folder, 'backups');
    mkdirSync(join(backups, 'of-long-ago'), { recursive: true });
    spawnSync('touch', ['-d', '20 days ago', join(backups, 'of-long-ago')]);
    const keys = spawnSync(
      process.execPath,
      ['src/cli/understudy.mjs', 'keys', 'create', '--org', 'acme', '--name', 'a'],
      {
        cwd: root,
        env: { PATH: process.env.PATH, DATA_DIR: data },
        encoding: 'utf8',
      },
    );
    expect(keys.status, keys.stderr).toBe(0);
    const [, script = ''] = /^ExecStart=\/bin\/sh -ec '(.+)'$/m.exec(
      read('deploy/understudy-backup.service'),
    )!;
    const line = script.replaceAll('%%', '%').replaceAll('/usr/bin/node', process.execPath);
    const done = spawnSync('/bin/sh', ['-ec', line], {
      cwd: root,
      env: { PATH: process.env.PATH, DATA_DIR: data, BACKUPS: backups },
      encoding: 'utf8',
    });
    expect(done.status, done.stderr).toBe(0);
    const made = readdirSync(backups);
    expect(made).toEqual([expect.stringMatching(/^\d{4}-\d\d-\d\dT\d{6}$/)]);
    expect(readdirSync(join(backups, made[0]!))).toContain('main.mdb');
  });
});

const hasNginx = spawnSync('nginx', ['-v']).status === 0;
describe.skipIf(!hasNginx)('nginx with deploy/nginx.conf, where nginx is installed', () => {
  const api = new ApiChild({ AUTH_DB_CONN_URL: 'embedded:', PUBLIC_URL: 'https://understudy.example.com' });
  let stop: () => Promise<void>;
  let dispatcher: Agent;
  let origin: string;
  const NAME = 'understudy.example.com';

  beforeAll(async () => {
    await api.start();
    writeFileSync(join(folder, 'cert.pem'), TEST_CERTIFICATE);
    writeFileSync(join(folder, 'key.pem'), TEST_KEY);
    const port = await findFreePort();
    const server = read('deploy/nginx.conf')
      .replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
      .replace('/etc/ssl/understudy.pem', join(folder, 'cert.pem'))
      .replace('/etc/ssl/understudy.key', join(folder, 'key.pem'))
      .replace('http://127.0.0.1:8000', api.url);
    const temps = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${join(folder, name)};`,
    );
    writeFileSync(
      join(folder, 'nginx.conf'),
      `daemon off; pid ${join(folder, 'pid')}; error_log stderr; events {} http { access_log off; ${temps.join(' ')} ${server} }`,
    );
    const nginx = spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-e', 'stderr'], { stdio: 'ignore' });
    stop = async () => {
      const ended = once(nginx, 'exit');
      // SIGTERM, because a worker would outlive a master that was killed by SIGKILL.
      nginx.kill('SIGTERM');
      await ended;
    };
    dispatcher = new Agent({ connect: { servername: NAME, rejectUnauthorized: false } });
    origin = `https://127.0.0.1:${port}`;
    await vi.waitFor(async () => expect((await ask('/health')).status).toBe(200), { timeout: PATIENCE_MS });
  });
  afterAll(async () => {
    await dispatcher?.close();
    await stop?.();
    await api[Symbol.asyncDispose]();
  });

  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const { statusCode, body } = await request(origin + path, {
      dispatcher,
      headers: { host: NAME, ...headers },
    });
    return { status: statusCode, body };
  };

  it('serves the pages under the public name', async () => {
    expect((await ask('/')).status).toBe(200);
    expect((await ask('/docs/guides/deploy')).status).toBe(200);
  });

  it('refuses the metrics to clients without a key', async () => {
    expect((await ask('/metrics')).status).toBe(401);
    expect((await ask('/metrics', { authorization: `Bearer ${CHILD_KEY}` })).status).toBe(200);
  });

  it('passes on events of the live stream at once', async () => {
    const stream = await ask('/v1/monitor/stream?org_id=o', { authorization: `Bearer ${CHILD_KEY}` });
    expect(stream.status).toBe(200);
    expect(String((await once(stream.body, 'data'))[0])).not.toBe('');
    stream.body.destroy();
  });
});
