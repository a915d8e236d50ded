/** Boxes of the API over one PostgreSQL database, each a process with its own folder. Test thread. */
import { migrateDatabase } from '../../src/storage/postgres/truth.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { PostgresServer, queryDatabase } from '../fixtures/postgres-server.ts';

export class SharedBoxes {
  readonly server: PostgresServer;
  readonly address: string;
  readonly #boxes: ControlPlaneChild[] = [];

  static async start(): Promise<SharedBoxes> {
    const server = await PostgresServer.start();
    const address = await server.createDatabase();
    await migrateDatabase(address);
    return new SharedBoxes(server, address);
  }

  private constructor(server: PostgresServer, address: string) {
    this.server = server;
    this.address = address;
  }

  /** Starts a box. @param env besides the database's address */
  async open(env: Record<string, string> = {}): Promise<ControlPlaneChild> {
    const box = new ControlPlaneChild({ AUTH_DB_URL: this.address, ...env });
    this.#boxes.push(box);
    await box.start();
    return box;
  }

  /** Asks the database. */
  query(text: string): Promise<Record<string, unknown>[]> {
    return queryDatabase(this.address, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#boxes.map((box) => box[Symbol.asyncDispose]()));
    await this.server.stop();
  }
}
