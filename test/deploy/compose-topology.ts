/**
 * Runs the services of a compose file as processes on loopback, with the commands, environments, files and order that
 * the file names. Only host names, ports and paths are replaced. PostgreSQL and S3 are the servers of the tests. Main
 * thread of a test.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
// @ts-expect-error the package has no types
import S3rver from 's3rver';
import { expect } from 'vitest';
import { parse } from 'yaml';
import { CliChild } from '../cli/child.ts';
import { findFreePort } from '../fixtures/free-port.ts';
import { type PostgresServer, queryDatabase } from '../fixtures/postgres-server.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

interface Service {
  image: string;
  command?: string[];
  entrypoint?: string[];
  environment?: Record<string, string>;
  env_file?: string[];
  secrets?: string[];
  volumes?: string[];
  depends_on?: Record<string, { condition: string }>;
}

interface ComposeFile {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
  volumes: Record<string, object>;
}

export function readCompose(name: string): ComposeFile {
  return parse(readFileSync(join(root, 'deploy', name), 'utf8'), { merge: true });
}

/** @returns the content of each env file that the comment at the head of the compose file describes */
export function readHead(name: string): Record<string, string> {
  const head = readFileSync(join(root, 'deploy', name), 'utf8').split(/^(?!#)/m, 1)[0]!;
  const found: Record<string, string> = {};
  for (const [, file = '', value = ''] of head.matchAll(/^#\s+(\S+\.env)\s+AUTH_DB_URL=(\S+)$/gm))
    found[file] = value;
  return found;
}

/** The access key that s3rver accepts, which is also its secret key. */
const S3_KEY = 'S3RVER';
const OWNER_PASSWORD = 'of-the-owner';
const SERVICE_PASSWORD = 'of-the-service';

export class ComposeTopology {
  readonly #postgres: PostgresServer | null;
  readonly #file: string;
  readonly #compose: ComposeFile;
  readonly #folder: string;
  /** The operator's variables, which are added to the env files. */
  readonly #env: Record<string, string>;
  readonly #ports = new Map<string, number>();
  readonly #children = new Map<string, CliChild>();
  /** Services that run, or that have ended if they run only once. */
  readonly #up = new Set<string>();
  #s3: { close(): Promise<void> } | null = null;
  #s3Port = 0;

  /**
   * @param env the operator's variables, such as SVC_KEYS
   * @param postgres null if the compose file has no database
   */
  static async start(
    file: string,
    folder: string,
    env: Record<string, string>,
    postgres: PostgresServer | null,
  ): Promise<ComposeTopology> {
    const topology = new ComposeTopology(file, folder, env, postgres);
    topology.#writeSecrets();
    topology.#s3Port = await findFreePort();
    for (const name of Object.keys(topology.#compose.services)) await topology.#bring(name);
    return topology;
  }

  private constructor(
    file: string,
    folder: string,
    env: Record<string, string>,
    postgres: PostgresServer | null,
  ) {
    this.#file = file;
    this.#compose = readCompose(file);
    this.#folder = folder;
    this.#env = env;
    this.#postgres = postgres;
  }

  /** The port of each of the product's services that has started, by the service's name. */
  get ports(): ReadonlyMap<string, number> {
    return this.#ports;
  }

  urlOf(service: string): string {
    return `http://127.0.0.1:${this.#ports.get(service)}`;
  }

  /** Asks a service to end, as `docker compose stop` does. @returns its exit status */
  async stop(service: string): Promise<number | null> {
    const child = this.#children.get(service)!;
    child.process.kill('SIGTERM');
    return (await child.ended).code;
  }

  /** Starts a service again, over the same volumes. */
  async startAgain(service: string): Promise<void> {
    this.#up.delete(service);
    await this.#bring(service);
  }

  /** Seals the captures of the gateways, and waits until every API box lists these runs. */
  async expectCaptured(runs: readonly string[], key: string): Promise<void> {
    const named = (kind: string) => [...this.#ports.keys()].filter((name) => name.startsWith(kind));
    for (const name of named('gateway'))
      for (const route of ['flush', 'rotate']) {
        const answer = await fetch(`${this.urlOf(name)}/__gw/${route}`, { method: 'POST' });
        expect(answer.status, `${name} ${route}`).toBe(200);
      }
    const headers = { authorization: `Bearer ${key}` };
    for (const name of named('api')) {
      const list = async () => {
        const text = await (await fetch(`${this.urlOf(name)}/capture/runs`, { headers })).text();
        return runs.filter((run) => text.includes(`"${run}"`));
      };
      await expect.poll(list).toEqual(runs);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.values()) await child[Symbol.asyncDispose]();
    await this.#s3?.close();
  }

  /** Starts a service after those that it depends on. */
  async #bring(name: string): Promise<void> {
    if (this.#up.has(name)) return;
    this.#up.add(name);
    const service = this.#compose.services[name]!;
    for (const dependency of Object.keys(service.depends_on ?? {})) await this.#bring(dependency);
    if (service.image === 'understudy') return this.#bringOwn(name, service);
    if (service.image.startsWith('postgres:'))
      return service.entrypoint === undefined ? this.#bringPostgres(service) : this.#applyRights(service);
    if (service.image.includes('versitygw')) return this.#bringS3();
    // The load balancer is left out. A test starts it where it is installed.
    expect(service.image).toMatch(/^caddy:/);
  }

  async #bringOwn(name: string, service: Service): Promise<void> {
    const data = this.#placeOf(name, service);
    mkdirSync(data, { recursive: true, mode: 0o700 });
    if (service.entrypoint !== undefined) return this.#runOnce(service.entrypoint, data);
    const [command = '', ...words] = service.command!;
    const argv = [command, ...words.map((word) => (word === '0.0.0.0' ? '127.0.0.1' : word))];
    const port = this.#ports.get(name) ?? (await findFreePort());
    const env = { ...this.#environmentOf(service), DATA_DIR: data, PORT: `${port}`, GW_PORT: `${port}` };
    const child = new CliChild(argv, { env });
    if (command === 'migrate') {
      const { code, stderr } = await child.ended;
      expect(code, stderr).toBe(0);
      return;
    }
    this.#children.set(name, child);
    this.#ports.set(name, port);
    await child.waitForOutput(new RegExp(`http://127.0.0.1:${port}`));
  }

  /** The variables of the image, overridden by those of the env files, and these by those of the service. */
  #environmentOf({ environment = {}, env_file = [] }: Service): Record<string, string> {
    const embedded = parseEnv(readFileSync(join(root, 'embedded.env'), 'utf8')) as Record<string, string>;
    const files = env_file.map((file) => this.#envFile(file));
    const all: Record<string, string> = Object.assign({}, embedded, ...files, environment);
    return Object.fromEntries(Object.entries(all).map(([key, value]) => [key, this.#place(value)]));
  }

  /** @returns the content of an env file that an operator would write */
  #envFile(file: string): Record<string, string> {
    const address = readHead(this.#file)[file];
    const password = file === 'owner.env' ? OWNER_PASSWORD : SERVICE_PASSWORD;
    const found = address === undefined ? {} : { AUTH_DB_URL: address.replace('PASSWORD', password) };
    if (file === 'owner.env') return found;
    return { ...found, AWS_ACCESS_KEY_ID: S3_KEY, AWS_SECRET_ACCESS_KEY: S3_KEY, ...this.#env };
  }

  /** Replaces the host names and paths of containers. */
  #place(value: string): string {
    return value
      .replace('@postgres/', `@127.0.0.1:${this.#postgres?.port}/`)
      .replace('//s3:7070', `//127.0.0.1:${this.#s3Port}`)
      .replace('/run/secrets', join(this.#folder, 'secrets'));
  }

  #writeSecrets(): void {
    const contents: Record<string, string> = {
      'data.key': createHash('sha256').update('tests').digest('base64'),
      'owner.password': OWNER_PASSWORD,
      'service.password': SERVICE_PASSWORD,
    };
    mkdirSync(join(this.#folder, 'secrets'), { recursive: true });
    for (const [name, { file }] of Object.entries(this.#compose.secrets))
      writeFileSync(join(this.#folder, 'secrets', name), contents[file]!, { mode: 0o600 });
  }

  /** @returns the folder that stands for the volume at /data */
  #placeOf(name: string, { volumes = [] }: Service): string {
    const volume = volumes.find((mount) => mount.endsWith(':/data'))?.split(':')[0];
    if (volume !== undefined) expect(this.#compose.volumes).toHaveProperty(volume);
    return join(this.#folder, volume ?? `anonymous-${name}`);
  }

  #runOnce([program = '', ...words]: string[], data: string): void {
    expect(program).toBe('node');
    const argv = words.map((word) => word.replace("'/data", `'${data}`));
    const { status, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8' });
    expect(status, stderr).toBe(0);
  }

  async #bringS3(): Promise<void> {
    const directory = this.#placeOf('s3', this.#compose.services.s3!);
    const server = new S3rver({ address: '127.0.0.1', port: this.#s3Port, silent: true, directory });
    expect(((await server.run()) as AddressInfo).port).toBe(this.#s3Port);
    this.#s3 = server;
  }

  /** Does what the image does at its first start: creates the owner and the database, and runs the mounted script. */
  async #bringPostgres({ environment = {}, volumes = [] }: Service): Promise<void> {
    const { POSTGRES_USER: user, POSTGRES_DB: database } = environment;
    await this.#postgres!.query(`CREATE ROLE ${user} SUPERUSER LOGIN PASSWORD '${OWNER_PASSWORD}'`);
    await this.#postgres!.query(`CREATE DATABASE ${database} OWNER ${user}`);
    const script = volumes.find((mount) => mount.includes('/docker-entrypoint-initdb.d/'))!.split(':')[0]!;
    const [, sql = ''] = /<<'SQL'\n(.*)\nSQL$/ms.exec(readFileSync(join(root, 'deploy', script), 'utf8'))!;
    await this.#asOwner(sql.replace(":'password'", `'${SERVICE_PASSWORD}'`));
  }

  async #applyRights({ command = [], volumes = [] }: Service): Promise<void> {
    const [from = '', to = ''] = volumes[0]!.split(':');
    expect(command[0]).toMatch(new RegExp(`psql .*-h postgres -U owner -d understudy -f ${to}$`));
    await this.#asOwner(readFileSync(join(root, 'deploy', from), 'utf8'));
  }

  async #asOwner(sql: string): Promise<void> {
    const { POSTGRES_USER: user, POSTGRES_DB: database } = this.#compose.services.postgres!.environment!;
    const address = new URL(this.#postgres!.addressOf(database!));
    await queryDatabase(Object.assign(address, { username: user, password: OWNER_PASSWORD }).href, sql);
  }
}

/** Starts an upstream that answers as the Messages API does. */
export async function openModel(): Promise<Server> {
  const server = createServer((incoming, outgoing) => {
    incoming.resume().on('end', () => {
      const content = [{ type: 'text', text: 'fine' }];
      const said = {
        id: 'm',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content,
        stop_reason: 'end_turn',
      };
      outgoing.setHeader('content-type', 'application/json');
      outgoing.end(JSON.stringify({ ...said, usage: { input_tokens: 1, output_tokens: 1 } }));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
