/** The operator's variables: their defaults, their allowed values, and the messages for wrong values. */

import { dirname, isAbsolute, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/config/config-error.ts';
import { isLoopback } from '../../src/config/local-address.ts';
import { chooseThreads, THREADS_MAX } from '../../src/config/service.ts';
import { type ConfigFlags, loadConfig } from '../../src/config.ts';
import { countUsableCores } from '../../src/std/usable-cores.ts';

const AUTO = chooseThreads(countUsableCores());

const gateway = (flags: Omit<ConfigFlags, 'listener'> = {}, env: NodeJS.ProcessEnv = {}) =>
  loadConfig({ listener: 'gateway', ...flags }, env);

function refusal(env: NodeJS.ProcessEnv, flags: Omit<ConfigFlags, 'listener'> = {}): string {
  try {
    gateway(flags, env);
  } catch (thrown) {
    expect(thrown).toMatchObject({ name: 'ConfigError', exit_code: 78 });
    return (thrown as Error).message;
  }
  throw new Error('the value was taken');
}

describe('a configuration without variables', () => {
  it('has the documented defaults', () => {
    expect(gateway()).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      log_level: 'info',
      http_server: 'auto',
      stop_notice_ms: 0,
      retention_days: { runs: null, traces: null, findings: null, live_events: null, captures: null },
      data_dir: resolve('data'),
      data_key: null,
      cores: countUsableCores(),
      actor_threads: AUTO.actor,
      server_threads: AUTO.server,
      compute_threads: AUTO.compute,
      allowed_hosts: ['127.0.0.1'],
      connections: { total: null, by_address: null, min_upload_bytes_per_sec: 64 },
      api: {
        host: '127.0.0.1',
        port: 8000,
        tls: null,
        public_url: null,
        busy_poll_us: 100,
        max_body_bytes: 5_242_880,
        rate_limit_per_sec: 200,
        rate_limit_burst: 400,
        auth_fail_rate_per_sec: 5,
        cors_origins: [],
      },
      auth: { static_keys: [], jwt_secret: null, jwks_url: null, jwt_issuer: null, jwt_audience: null },
      gateway: {
        host: '127.0.0.1',
        port: 8787,
        tls: null,
        upstream_base: 'https://api.anthropic.com',
        provider: 'anthropic',
        gemini_base: 'https://generativelanguage.googleapis.com',
        bedrock_base: 'https://bedrock-runtime.{region}.amazonaws.com',
        routes: [],
        route_secrets: [],
        upstream_ca: null,
      },
      otel: null,
      alerts: { private_targets: [], mail: null },
      capture: {
        enabled: true,
        db: resolve('data', 'capture.mdb'),
        note: '',
        run_headers: [],
        redact: true,
        bucket: null,
        read_from: null,
        max_queue: 10_000,
        max_queue_bytes: 268_435_456,
        max_capture_bytes: 67_108_864,
        prices: null,
      },
      operators: { emails: [], org: null },
      proxy: null,
      relegation: null,
      relegation_wires: ['messages'],
      student_key: '',
      engines: { vector_store: null, accounts: null, live_stream: null },
      shared_database: null,
      unused_keys: [],
      billing: {
        secret_key: null,
        webhook_secret: null,
        webhook_thin_secret: null,
        api_base: null,
        plan_caps: { free: 50_000, pro: 500_000, enterprise: null },
      },
      distill_model: null,
      embedding: { model_dir: null, remote: null },
    });
  });

  it('treats an empty variable like a missing one', () => {
    expect(gateway({}, { PORT: '', GW_NOTE: '', GW_UPSTREAM_BASE: '', AUTH_DB_URL: '' })).toEqual(gateway());
  });

  it('cannot be changed afterwards', () => {
    const config = gateway();
    for (const part of [config, config.api, config.gateway, config.capture, config.engines]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });
});

describe('a model that writes patterns', () => {
  it('requires a service and a name together, with a key or without', () => {
    const set = { DISTILL_MODEL_URL: 'https://models.example/v1/', DISTILL_MODEL: 'small-1' };
    const config = gateway({}, set);
    expect(config.distill_model).toEqual({ url: 'https://models.example/v1', model: 'small-1', key: '' });
    expect(Object.isFrozen(config.distill_model)).toBe(true);
    expect(gateway({}, { ...set, DISTILL_MODEL_KEY: 'k' }).distill_model?.key).toBe('k');
    expect(refusal({ ...set, DISTILL_MODEL_URL: '' })).toBe(
      'DISTILL_MODEL_URL="": DISTILL_MODEL is set: set both or neither',
    );
    expect(refusal({ ...set, DISTILL_MODEL: '' })).toBe(
      'DISTILL_MODEL="": DISTILL_MODEL_URL is set: set both or neither',
    );
  });
});

describe('published keys', () => {
  const url = { AUTH_JWKS_URL: 'https://id.example.com/keys' };
  const claims = { AUTH_JWT_ISSUER: 'https://id.example.com/', AUTH_JWT_AUDIENCE: 'understudy' };

  it('require an issuer and an audience, and the refusal names the missing one', () => {
    expect(refusal(url)).toBe(
      'AUTH_JWT_ISSUER="": AUTH_JWKS_URL is set: set AUTH_JWT_ISSUER to the `iss` that tokens must have, or to any',
    );
    expect(refusal({ ...url, ...claims, AUTH_JWT_AUDIENCE: '' })).toMatch(/^AUTH_JWT_AUDIENCE="": .*`aud`/);
    expect(refusal({ ...url, ...claims, AUTH_JWT_ISSUER: '' })).toMatch(/^AUTH_JWT_ISSUER="": .*`iss`/);
    expect(gateway({}, { ...url, ...claims }).auth).toMatchObject({
      jwt_issuer: 'https://id.example.com/',
      jwt_audience: 'understudy',
    });
  });

  it('accept any audience and any issuer only on request', () => {
    expect(gateway({}, { ...url, ...claims, AUTH_JWT_AUDIENCE: 'any' }).auth).toMatchObject({
      jwt_issuer: 'https://id.example.com/',
      jwt_audience: null,
    });
    expect(gateway({}, { ...url, ...claims, AUTH_JWT_ISSUER: 'any' }).auth.jwt_issuer).toBeNull();
  });
});

describe('variables and flags', () => {
  it('are all read', () => {
    const config = gateway(
      {},
      {
        LOG_LEVEL: 'debug',
        HTTP_SERVER: 'node',
        STOP_NOTICE_MS: '5000',
        DATA_DIR: '/srv/understudy',
        RETENTION_DAYS: '90',
        RETENTION_DAYS_TRACES: '0',
        RETENTION_DAYS_LIVE_EVENTS: '1',
        ACTOR_THREADS: '64',
        FRONT_THREADS: '2',
        HOST: '::',
        PORT: '0',
        PUBLIC_URL: 'https://Understudy.example.com/',
        MAX_CONNECTIONS: '5000',
        MAX_CONNECTIONS_PER_ADDRESS: '0',
        MIN_UPLOAD_BYTES_PER_SEC: '1000',
        ALLOWED_HOSTS: 'Agents.example.com, other.example.com.,',
        MAX_BODY_BYTES: '1000',
        RATE_LIMIT_PER_SEC: '5',
        RATE_LIMIT_BURST: '10',
        AUTH_FAIL_RATE_PER_SEC: '3',
        SVC_KEYS: 'one, two,,one',
        AUTH_JWT_SECRET: 'a secret of the identity provider',
        AUTH_JWKS_URL: 'https://id.example.com/keys',
        AUTH_JWT_ISSUER: 'https://id.example.com/',
        AUTH_JWT_AUDIENCE: 'understudy',
        CORS_ALLOWED_ORIGINS: 'https://App.example.com/,http://[::1]:8080',
        CORS_ALLOW_DEV_ORIGINS: 'true',
        GW_HOST: 'gateway.internal',
        GW_PORT: '65535',
        GW_UPSTREAM_BASE: 'http://127.0.0.1:9/some/path/',
        GW_PROVIDER: 'my-provider_2.0',
        GW_GEMINI_BASE: 'http://[::1]:9/',
        GW_BEDROCK_BASE: 'http://127.0.0.1:9/{region}/runtime',
        GW_ROUTES: '{"/openai": "openai"}',
        GW_NOTE: 'späte Läufe',
        SVC_RUN_HEADERS: 'X-Acme-Run, x-acme-job',
        GW_CAPTURE: 'off',
        SVC_REDACT: '0',
        GW_MAX_QUEUE: '1',
        GW_MAX_QUEUE_BYTES: '1',
        GW_MAX_CAPTURE_BYTES: '1',
        VECTOR_STORE_URL: 'embedded:',
        AUTH_DB_URL: 'embedded:',
        AUTH_DB_CONN_URL: 'embedded:',
      },
    );
    expect(config).toMatchObject({
      log_level: 'debug',
      stop_notice_ms: 5_000,
      data_dir: '/srv/understudy',
      retention_days: { runs: 90, traces: null, findings: 90, live_events: 1, captures: 90 },
      cores: countUsableCores(),
      actor_threads: 64,
      server_threads: 2,
      compute_threads: AUTO.compute,
      connections: { total: 5_000, by_address: 0, min_upload_bytes_per_sec: 1_000 },
      allowed_hosts: [
        'agents.example.com',
        'other.example.com.',
        '::',
        'gateway.internal',
        'understudy.example.com',
      ],
      api: {
        host: '::',
        port: 0,
        public_url: 'https://understudy.example.com',
        max_body_bytes: 1000,
        rate_limit_per_sec: 5,
        rate_limit_burst: 10,
        auth_fail_rate_per_sec: 3,
        cors_origins: [
          'https://app.example.com',
          'http://[::1]:8080',
          'http://localhost:3000',
          'http://localhost:5173',
          'http://localhost:8000',
          'http://127.0.0.1:3000',
          'http://127.0.0.1:5173',
          'http://127.0.0.1:8000',
        ],
      },
      auth: {
        static_keys: ['one', 'two'],
        jwt_secret: 'a secret of the identity provider',
        jwks_url: 'https://id.example.com/keys',
        jwt_issuer: 'https://id.example.com/',
        jwt_audience: 'understudy',
      },
      gateway: {
        host: 'gateway.internal',
        port: 65_535,
        upstream_base: 'http://127.0.0.1:9/some/path',
        provider: 'my-provider_2.0',
        gemini_base: 'http://[::1]:9',
        bedrock_base: 'http://127.0.0.1:9/{region}/runtime',
        routes: [{ prefix: '/openai', base: 'https://api.openai.com' }],
      },
      capture: {
        db: '/srv/understudy/capture.mdb',
        note: 'späte Läufe',
        run_headers: ['x-acme-run', 'x-acme-job'],
        enabled: false,
        redact: false,
        max_queue: 1,
        max_queue_bytes: 1,
        max_capture_bytes: 1,
      },
      engines: {
        vector_store: 'embedded:',
        accounts: 'embedded:',
        live_stream: 'embedded:',
      },
      unused_keys: [],
    });
  });

  it('have a precedence: a flag overrides its variable, for the listener that the command starts', () => {
    const env = { GW_PORT: '1', GW_HOST: 'a', PORT: '2', HOST: 'b', GW_NOTE: 'from the environment' };
    const flags = { host: '127.0.0.2', port: '3', note: 'from the flag', db: 'some/file.mdb' };
    const onGateway = loadConfig({ listener: 'gateway', ...flags }, env);
    expect(onGateway.gateway).toMatchObject({ host: '127.0.0.2', port: 3 });
    expect(onGateway.api).toMatchObject({ host: 'b', port: 2 });
    expect(onGateway.capture).toMatchObject({ note: 'from the flag', db: resolve('some/file.mdb') });
    const onApi = loadConfig({ listener: 'api', ...flags }, env);
    expect(onApi.api).toMatchObject({ host: '127.0.0.2', port: 3 });
    expect(onApi.gateway).toMatchObject({ host: 'a', port: 1 });
  });

  it('contain paths relative to the working directory at the start', () => {
    const config = gateway({}, { DATA_DIR: 'elsewhere' });
    expect(isAbsolute(config.data_dir)).toBe(true);
    expect(config.capture.db).toBe(join(config.data_dir, 'capture.mdb'));
  });
});

describe('a bad value', () => {
  it.each([
    ['PORT', '65536', 'must be a port from 0 (any free one) to 65535'],
    ['PORT', '80a', 'must be a port'],
    ['PORT', '-1', 'must be a port'],
    ['PORT', ' 80', 'must be a port'],
    ['PORT', '8e3', 'must be a port'],
    ['GW_HOST', '1.2.3.4:80', 'must be an IP address or a host name'],
    ['GW_HOST', 'http://x', 'must be an IP address'],
    ['ACTOR_THREADS', '0', 'must be auto, or a whole number from 1 to 64'],
    ['SERVER_THREADS', '65', 'must be auto, or a whole number from 1 to 64'],
    ['FRONT_THREADS', '65', 'must be auto, or a whole number from 1 to 64'],
    ['LOG_LEVEL', 'loud', 'must be one of trace, debug, info, warn, error, fatal, silent'],
    ['SVC_REDACT', 'yes', 'must be 1 (on) or 0 (off)'],
    ['GW_CAPTURE', '0', 'must be on or off'],
    ['GW_MAX_QUEUE', '0', 'must be a whole number of exchanges from 1 to 9007199254740991, in digits'],
    ['GW_MAX_QUEUE_BYTES', '256MB', 'must be a whole number of bytes from 1 to 9007199254740991'],
    ['GW_MAX_CAPTURE_BYTES', '99999999999', 'must be a whole number of bytes from 1 to 1073741824'],
    ['GW_PROVIDER', 'a b', 'must be 1 to 64 letters'],
    ['GW_PROVIDER', '-a', 'the first a letter or a digit'],
    ['GW_NOTE', 'a\u0007', 'must be up to 200 printable characters'],
    ['GW_NOTE', 'a'.repeat(201), 'must be up to 200'],
    ['SVC_RUN_HEADERS', 'x-session-id', 'without credentials'],
    ['SVC_RUN_HEADERS', 'x-svc-run', 'must be up to 16 names of headers'],
    ['SVC_RUN_HEADERS', 'x acme', 'must be up to 16 names of headers'],
    ['GW_UPSTREAM_BASE', 'api.example.com', 'must be an http:// or https:// address'],
    ['GW_UPSTREAM_BASE', 'ftp://api.example.com', 'must be an http://'],
    ['GW_UPSTREAM_BASE', 'https://', 'must be an http://'],
    ['GW_UPSTREAM_BASE', 'https://a/?x=1', 'must be an http://'],
    ['GW_UPSTREAM_BASE', 'https://a/#x', 'must be an http://'],
    ['GW_UPSTREAM_BASE', 'https://a b', 'must be an http://'],
    ['GW_UPSTREAM_BASE', 'https://a/{region}', 'must be an http://'],
    ['PUBLIC_URL', 'understudy.example.com', 'must be an address like https://'],
    ['PUBLIC_URL', 'https://a.example.com/dashboard', 'no path'],
    ['PUBLIC_URL', 'https://a.example.com/?x=1', 'no path'],
    ['PUBLIC_URL', 'javascript:alert(1)', 'must be an address'],
    ['MAX_CONNECTIONS', '-1', 'must be a whole number of connections from 0 to 1000000, in digits'],
    ['ALLOWED_HOSTS', 'https://a.example.com', 'must be up to 1000 host names'],
    ['ALLOWED_HOSTS', 'a.example.com:8000', 'without a port'],
    ['STRIPE_API_BASE', 'http://127.0.0.1:9/stripe', 'no path'],
    ['CORS_ALLOWED_ORIGINS', '*', 'no *'],
    ['CORS_ALLOWED_ORIGINS', 'https://a.example.com/path', 'must be up to 1000 origins'],
    ['CORS_ALLOWED_ORIGINS', 'app.example.com', 'must be up to 1000 origins'],
    ['CORS_ALLOWED_ORIGINS', 'https://a.example.com:443', 'must be up to 1000 origins'],
    ['CORS_ALLOW_DEV_ORIGINS', 'yes', 'must be true or false'],
    ['AUTH_FAIL_RATE_PER_SEC', '-1', 'must be a whole number from 0'],
    ['AUTH_JWT_ISSUER', 'a\n', 'must be up to 1000 printable characters'],
    ['GW_BEDROCK_BASE', 'https://a/{place}', '{region} stands for the region'],
  ])('%s=%j', (name, value, allowed) => {
    const message = refusal({ [name]: value });
    expect(message).toContain(`${name}=`);
    expect(message).toContain(allowed);
    expect(message).not.toContain('\n');
    if (value.length < 100) expect(message).toContain(JSON.stringify(value));
  });

  it('of GW_ROUTES is called a value or the path of a file', () => {
    const file = import.meta.filename;
    expect(refusal({ GW_ROUTES: '{' })).toContain('the value is not JSON');
    expect(refusal({ GW_ROUTES: file })).toContain('the file is not JSON');
    expect(refusal({ GW_ROUTES: dirname(file) })).toContain('cannot be read (the path is not a file)');
    expect(refusal({ GW_ROUTES: 'groq' })).toContain('cannot be read (ENOENT)');
  });

  it('of a flag is reported with the flag', () => {
    expect(refusal({}, { port: 'x' })).toContain('--port="x"');
    expect(refusal({}, { note: '\n' })).toContain('--note="\\n"');
    expect(refusal({}, { db: '' })).toContain('--db=""');
    expect(refusal({}, { host: '' })).toContain('--host=""');
  });

  it.each(['VECTOR_STORE_URL', 'AUTH_DB_URL', 'AUTH_DB_CONN_URL'])(
    'of %s is any engine except the embedded one and, for AUTH_DB_URL, PostgreSQL',
    (name) => {
      const addresses = ['https://user:hunter2@db.example.com', 'embedded', 'postgres:db', 'mysql://db/main'];
      if (name !== 'AUTH_DB_URL') addresses.push('postgres://db/main');
      for (const url of addresses) {
        expect(refusal({ [name]: url })).toContain(`${name}=(not shown): must be \`embedded:\``);
      }
    },
  );

  it('of AUTH_DB_URL is not the address of a database that boxes share', () => {
    const url = 'postgres://user:hunter2@db.example.com/understudy';
    const { engines, shared_database } = gateway({}, { AUTH_DB_URL: url });
    expect({ accounts: engines.accounts, shared_database }).toEqual({
      accounts: 'postgres:',
      shared_database: url,
    });
  });

  it('is not a key that no engine uses, which is only named; an invalid key is refused without its value', () => {
    const { unused_keys } = gateway({}, { VECTOR_STORE_API_KEY: 'hunter2', AUTH_DB_SERVICE_KEY: '' });
    expect(unused_keys).toEqual(['VECTOR_STORE_API_KEY']);
    expect(refusal({ AUTH_DB_SERVICE_KEY: 'hunter2 is the password' })).not.toContain('hunter2');
  });

  it('that is or contains a secret is never shown', () => {
    const keys = ['SVC_KEYS', 'SVC_STUDENT_KEYS', 'AUTH_JWKS_URL'];
    for (const name of ['VECTOR_STORE_URL', 'AUTH_DB_URL', 'AUTH_DB_CONN_URL', ...keys]) {
      expect(refusal({ [name]: 'hunter2 is the password' })).not.toContain('hunter2');
    }
    for (const url of ['https://me:hunter2@a/', 'https://me:hunt@hunter2@a', 'ftp://hunter2@a/b']) {
      expect(refusal({ GW_UPSTREAM_BASE: url })).not.toContain('hunter2');
    }
  });
});

describe('loopback', () => {
  it.each(['127.0.0.1', '127.8.9.1', '::1', 'localhost', 'LocalHost.', '::ffff:127.0.0.1'])(
    'includes %s',
    (host) => {
      expect(isLoopback(host)).toBe(true);
    },
  );
  it.each(['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example.com', 'localhost.example.com', '1127.0.0.1'])(
    'does not include %s',
    (host) => {
      expect(isLoopback(host)).toBe(false);
    },
  );
});

describe('relegation', () => {
  const env = { SVC_DISTILL_DIR: 'some/student' };

  it('is off without a directory, and on request', () => {
    expect(gateway({}, { GW_RELEGATION: 'shadow', SVC_STUDENT_KEY: 'key' }).relegation).toBeNull();
    expect(gateway({}, { ...env, GW_RELEGATION: 'off' }).relegation).toBeNull();
  });

  it('reads its variables', () => {
    expect(gateway({}, env).relegation).toEqual({
      directory: resolve('some/student'),
      shared: null,
      mode: 'on',
      key: '',
      client_keys: [],
      audit_share: 0.05,
      sticky: false,
      watch_path: resolve('data/student-watch.json'),
      ledger_path: resolve('data/student-ledger.json'),
      timeout_ms: null,
      prices: null,
    });
    const tiers = { flex: 0.5, priority: { input: 6, output: 31 } };
    const prices = { 'a-model': { input: 3, output: 15.5, tiers } };
    const all = {
      ...env,
      GW_RELEGATION: 'shadow',
      GW_RELEGATION_AUDIT: '0.25',
      GW_RELEGATION_STICKY: 'on',
      GW_RELEGATION_WIRES: 'responses, messages,responses',
      SVC_STUDENT_KEY: 'key',
      SVC_STUDENT_KEYS: 'one,two, one',
      GW_STUDENT_TIMEOUT_MS: '50',
      GW_PRICES: JSON.stringify(prices),
    };
    expect(gateway({}, all).relegation).toMatchObject({
      mode: 'shadow',
      key: 'key',
      client_keys: ['one', 'two'],
      audit_share: 0.25,
      sticky: true,
      timeout_ms: 50,
      prices,
    });
  });

  it.each([
    ['GW_RELEGATION', 'sometimes'],
    ['GW_RELEGATION_AUDIT', '5%'],
    ['GW_RELEGATION_STICKY', 'sometimes'],
    ['GW_RELEGATION_WIRES', 'messages,gemini'],
    ['GW_RELEGATION_WIRES', ','],
    ['GW_RELEGATION_AUDIT', '1.1'],
    ['GW_STUDENT_TIMEOUT_MS', '0'],
    ['GW_STUDENT_TIMEOUT_MS', '25ms'],
    ['GW_STUDENT_TIMEOUT_MS', '600001'],
    ['GW_PRICES', '{'],
    ['GW_PRICES', '[]'],
    ['GW_PRICES', '{"a": 3}'],
    ['GW_PRICES', 'null'],
    ['GW_PRICES', '{"extends": "other"}'],
    ['GW_PRICES', '{"a": {"input": 3, "output": 1, "above": {"input": 3, "output": 1}}}'],
    ['GW_PRICES', '{"a": {"input": 3}}'],
    ['GW_PRICES', '{"a": {"input": -1, "output": 1}}'],
    ['GW_PRICES', '{"a": {"input": "3", "output": 1}}'],
    ['GW_PRICES', '{"a": {"input": 3, "output": 1, "cache": 1}}'],
    ['GW_PRICES', '{"a": {"input": 3, "output": 1, "tiers": {"flex": "half"}}}'],
    ['GW_PRICES', '{"a": {"input": 3, "output": 1, "tiers": {"Flex": 0.5}}}'],
    ['GW_PRICES', '{"a": {"input": 3, "output": 1, "tiers": {"flex": {"input": 1}}}}'],
  ])('refuses %s=%s, and says what is allowed', (name, value) => {
    expect(() => gateway({}, { ...env, [name]: value })).toThrow(ConfigError);
    expect(() => gateway({}, { ...env, [name]: value })).toThrow(new RegExp(`^${name}=.*must be`));
  });

  it('never shows the key', () => {
    expect(() => gateway({}, { ...env, SVC_STUDENT_KEY: 'a key with blanks' })).toThrow(
      /^SVC_STUDENT_KEY=\(not shown\): must be/,
    );
  });
});

describe('auto threads', () => {
  it('grow with the number of cores, and each kind has at least one thread', () => {
    let before = chooseThreads(1);
    expect(before).toMatchObject({ server: 1, actor: 1, compute: 1 });
    expect(chooseThreads(2)).toMatchObject({ server: 2, actor: 1, compute: 1 });
    for (let cores = 2; cores <= 256; cores++) {
      const { server, actor, compute } = chooseThreads(cores);
      expect(server).toBeLessThanOrEqual(cores);
      for (const count of [server, actor, compute]) {
        expect(count).toBeGreaterThanOrEqual(1);
        expect(count).toBeLessThanOrEqual(THREADS_MAX);
      }
      expect(server >= before.server && actor >= before.actor && compute >= before.compute).toBe(true);
      before = { server, actor, compute };
    }
  });

  it('replace each variable that is missing or auto, independently of the others', () => {
    expect(gateway({}, { SERVER_THREADS: 'auto', ACTOR_THREADS: '3', FRONT_THREADS: '7' })).toMatchObject({
      server_threads: AUTO.server,
      actor_threads: 3,
      compute_threads: AUTO.compute,
    });
    expect(gateway({}, { FRONT_THREADS: '7', COMPUTE_THREADS: '2' })).toMatchObject({
      server_threads: 7,
      actor_threads: AUTO.actor,
      compute_threads: 2,
    });
  });
});
