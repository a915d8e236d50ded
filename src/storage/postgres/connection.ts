/**
 * A connection to the database, with a deadline for each answer and errors in one line. Any thread.
 */
import { Client, type ClientConfig } from 'pg';
import { TruthRefusedError, TruthUnavailableError } from '../shared/truth.ts';
import { type DatabaseAddress, explainDatabase } from './address.ts';
import { checkSchema } from './migration.ts';

/** Maximum time for an answer. After that, the connection is closed. */
export const ANSWER_MS = 5_000;

export class DatabaseConnection {
  readonly client: Client;
  readonly #address: DatabaseAddress;
  readonly #identity: string;
  readonly #answerMs: number;
  #failure: unknown = null;

  /** @param identity identity of the expected database */
  constructor(address: DatabaseAddress, identity: string, answerMs: number) {
    this.#address = address;
    this.#identity = identity;
    this.#answerMs = answerMs;
    this.client = makeClient(address, answerMs);
    this.client.on('error', (error) => {
      this.#failure ??= error;
    });
  }

  /**
   * Connects, checks the schema and the identity of the database, and sets the options of the planner. Call this method
   * in {@link guard}.
   * @throws TruthRefusedError; a driver error
   */
  async open(): Promise<void> {
    await this.client.connect();
    await checkSchema(this.client);
    const { identity } = (await this.client.query('SELECT identity FROM understudy.state')).rows[0];
    if (identity !== this.#identity)
      throw new TruthRefusedError(
        `${this.#address.name} has been replaced by another database: start the process again`,
      );
    // Otherwise the planner assumes that a new table is small, and scans all of it, with its dead row versions.
    await this.client.query('SET enable_seqscan = off');
    // Before version 18, PostgreSQL estimates plans as so expensive while `enable_seqscan` is off that it compiles each
    // statement, which takes a second.
    await this.client.query('SET jit = off');
  }

  /**
   * Runs queries with a deadline, after which the connection is closed, and explains their errors.
   * @throws TruthUnavailableError, TruthRefusedError
   */
  async guard<Value>(work: () => Promise<Value>): Promise<Value> {
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new TruthUnavailableError(`${this.#address.name} does not answer`));
        void this.close();
      }, this.#answerMs);
    });
    try {
      if (this.#failure !== null) throw this.#failure;
      return await Promise.race([work(), deadline]);
    } catch (thrown) {
      throw explainDatabase(thrown, this.#address);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes the connection at once. Running queries reject. */
  async close(): Promise<void> {
    this.#failure ??= new TruthUnavailableError('the session was closed');
    // Destroys the socket, because the server might not answer a regular termination. The server notices the closed
    // socket.
    const { stream } = (this.client as unknown as { connection: { stream: { destroy(): void } } }).connection;
    stream.destroy();
  }
}

export function makeClient(
  { client }: DatabaseAddress,
  connectionTimeoutMillis = ANSWER_MS,
  more: ClientConfig = {},
): Client {
  return new Client({ ...client, pipeline: true, connectionTimeoutMillis, keepAlive: true, ...more });
}
