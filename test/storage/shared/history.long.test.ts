/**
 * The history checker over processes and a PostgreSQL server: boxes are killed, stopped beyond every timeout and
 * continued, and cut off, and their clocks jump by up to ten minutes in both directions; the server is killed and
 * started again, or fails over to a standby. With TEST_FAKETIME (postgres-server.ts) the server's clock jumps by up
 * to ten days in both directions. HISTORY_SCHEDULES=N sets the number of schedules, and SEED=N the seed of the first
 * one.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import { migrateDatabase, PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import { PATIENCE_MS } from '../../fixtures/patience.ts';
import { PostgresServer, queryDatabase } from '../../fixtures/postgres-server.ts';
import { STRIPPED_FLAGS } from '../../fixtures/strip-types.ts';
import { makeFolder } from '../folder.ts';
import { beginHistory, judgeHistory, type Told } from './history.ts';
import { judgeRuns, type RunTold } from './runs-history.ts';
import { SharedBox } from './shared-box.ts';

const SCHEDULES = Number(process.env.HISTORY_SCHEDULES ?? 12);
const SEED = Number(process.env.SEED ?? 1);
const DISTURBANCES = 6;
/** Number of counted operations between two disturbances, and while a box is stopped or cut off. */
const CALM = 25;
/** Number of steps of runs in the same periods. */
const CALM_STEPS = 10;
/** Maximum difference between the clock of a box and the machine's clock. */
const CLOCK_OFF_MS = 600_000;
/**
 * Maximum difference between the database's clock and the machine's clock. The database removes data that is seven days
 * old.
 */
const DATABASE_OFF_MS = 10 * 86_400_000;
const ENTRY = fileURLToPath(new URL('history-box.ts', import.meta.url));

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

/** A relay between one box and the server. It can cut connections, or hold back bytes. */
class Way {
  readonly #server = createServer((socket) => this.#pass(socket));
  readonly #sockets = new Set<Socket>();
  #isHeld = false;

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Closes one direction of the connections: then either requests or answers do not arrive any longer. */
  halfClose(isTowardsServer: boolean): void {
    for (const socket of this.#sockets)
      if ((socket.remotePort === server.port) === isTowardsServer) socket.end();
  }

  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    for (const socket of this.#sockets) isHeld ? socket.pause() : socket.resume();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #pass(socket: Socket): void {
    const other = connect(server.port, '127.0.0.1');
    for (const [from, to] of [
      [socket, other],
      [other, socket],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (bytes) => to.writable && to.write(bytes));
      from.on('end', () => to.end());
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      if (this.#isHeld) from.pause();
    }
  }
}

class Schedule {
  readonly told: (Told | RunTold)[] = [];
  readonly #folder = makeFolder();
  readonly #random: Prng;
  /** The name of the database. */
  readonly #database: string;
  readonly #ways: Way[] = [];
  readonly #boxes: ChildProcess[] = [];
  #starts = 0;
  #counted = 0;
  #added = 0;
  #look: () => void = () => {};

  constructor(seed: number, address: string) {
    this.#random = createPrng(seed);
    this.#database = new URL(address).pathname.slice(1);
  }

  /** Ends the processes and servers that a failed schedule has left. */
  clean(): void {
    for (const box of this.#boxes) box.kill('SIGKILL');
    for (const way of this.#ways) way.close();
  }

  async run(): Promise<string[]> {
    const own = await SharedBox.open(
      join(this.#folder, 'own.mdb'),
      await PostgresTruth.connect(server.addressOf(this.#database)),
    );
    await beginHistory(own);
    await own.close();
    const count = 2 + this.#random.below(2);
    for (let at = 0; at < count; at++) {
      this.#ways.push(new Way());
      await this.#ways[at]!.open();
      await this.#start(at);
    }
    for (let n = 0; n < DISTURBANCES; n++) {
      await this.#calm();
      await this.#disturb(this.#random.below(count));
    }
    await this.#calm();
    await Promise.all(this.#boxes.map((box) => end(box)));
    for (const way of this.#ways) way.close();
    this.#setClock();
    const truth = await PostgresTruth.connect(server.addressOf(this.#database));
    const last = await SharedBox.open(join(this.#folder, 'last.mdb'), truth);
    const runs = await truth.runs.open(randomUUID());
    const { rows, steps } = this.#divide();
    const wrong = [...judgeHistory(rows, last.tables), ...(await judgeRuns(steps, runs, last.tables))];
    await runs.close();
    await last.close();
    rmSync(this.#folder, { recursive: true });
    return wrong;
  }

  /** Divides the printed outcomes into those of rows and those of runs. */
  #divide(): { rows: Told[]; steps: RunTold[] } {
    const rows: Told[] = [];
    const steps: RunTold[] = [];
    for (const entry of this.told) {
      if (entry.op === 'step') steps.push(entry);
      else rows.push(entry);
    }
    return { rows, steps };
  }

  async #disturb(at: number): Promise<void> {
    const box = this.#boxes[at]!;
    const way = this.#ways[at]!;
    const what = this.#random.below(server.hasClock ? 9 : 8);
    if (what === 0) await this.#kill(at);
    else if (what === 1) {
      box.kill('SIGSTOP');
      await this.#calm();
      box.kill('SIGCONT');
    } else if (what === 2) way.cut();
    else if (what === 3) way.halfClose(this.#random.chance(0.5));
    else if (what === 4) {
      way.hold(true);
      await this.#calm();
      if (this.#random.chance(0.5)) way.cut();
      way.hold(false);
    } else if (what === 5) {
      box.stdin!.write(`clock ${this.#random.below(2 * CLOCK_OFF_MS) - CLOCK_OFF_MS}\n`);
    } else if (what === 8) {
      server.moveClock(this.#random.below(2 * DATABASE_OFF_MS) - DATABASE_OFF_MS);
      const address = server.addressOf(this.#database);
      for (const tidy of ['prune', 'sweep', 'live_tidy'])
        await queryDatabase(address, `SELECT understudy.${tidy}()`);
    } else if (server.isOurs) {
      if (what === 6) {
        await server.kill();
        await server.resume();
        return;
      }
      await server.startStandby();
      await this.#calm();
      await server.failOver();
    }
  }

  async #kill(at: number): Promise<void> {
    const box = this.#boxes[at]!;
    const ended = once(box, 'exit');
    box.kill('SIGKILL');
    await ended;
    if (this.#random.chance(0.3)) rmSync(this.#path(at));
    await this.#start(at);
  }

  /**
   * Sets the clock of a box that starts. A box does not start if its clock differs too much from the database's clock.
   */
  #setClock(): void {
    if (server.hasClock) server.moveClock(0);
  }

  #path(at: number): string {
    return join(this.#folder, `${at}.mdb`);
  }

  async #start(at: number): Promise<void> {
    const address = Object.assign(new URL(server.addressOf(this.#database)), {
      port: `${this.#ways[at]!.port}`,
      hostname: '127.0.0.1',
    }).href;
    const seed = this.#random.below(1e6);
    this.#setClock();
    const argv = [...STRIPPED_FLAGS, ENTRY, address, this.#path(at), `${++this.#starts}`, `${seed}`];
    const box = spawn(process.execPath, argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#boxes[at] = box;
    const lines = createInterface({ input: box.stdout! });
    const opened = new Promise<void>((resolve, reject) => {
      box.once('exit', (code) => reject(new Error(`a box ended by itself with ${code}`)));
      lines.on('line', (line) => {
        const told = JSON.parse(line) as Told | RunTold | { op: 'open' };
        if (told.op === 'open') return resolve();
        this.told.push(told);
        if (told.op === 'count' && told.count !== null) this.#counted++;
        if (told.op === 'step' && typeof told.place === 'number') this.#added++;
        this.#look();
      });
    });
    await opened;
  }

  /** Waits until the clients have counted CALM further operations and added CALM_STEPS further steps. */
  #calm(): Promise<void> {
    const until = this.#counted + CALM;
    const added = this.#added + CALM_STEPS;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error('the clients make no progress: no operation is counted, or no step is added')),
        PATIENCE_MS,
      );
      this.#look = () => {
        if (this.#counted < until || this.#added < added) return;
        clearTimeout(timer);
        this.#look = () => {};
        resolve();
      };
    });
  }
}

async function end(box: ChildProcess): Promise<void> {
  const ended = once(box, 'exit');
  box.stdin!.write('end\n');
  expect(await ended).toEqual([0, null]);
}

it.each(Array.from({ length: SCHEDULES }, (_, at) => SEED + at))(
  'boxes lose and double nothing in schedule %i',
  async (seed) => {
    const address = await server.createDatabase();
    await migrateDatabase(address);
    const schedule = new Schedule(seed, address);
    onTestFinished(() => schedule.clean());
    expect(await schedule.run()).toEqual([]);
    await server.dropDatabase(address);
  },
);
