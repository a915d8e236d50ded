/** Sends requests to a product of the bench over one keep-alive connection, one after another. Bench process. */
import { Agent, request } from 'node:http';
import { PRODUCT_KEY } from './product.ts';

interface KeptAnswer {
  status: number;
  body: string;
}

/** One connection to `127.0.0.1:port`, with the bench's key. */
export class KeptConnection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  /** Reads a path, and returns the body. @throws Error if the status of the answer is not 200 */
  async read(path: string): Promise<string> {
    const { status, body } = await this.ask(path);
    if (status !== 200) throw new Error(`${path}: ${status} ${body.slice(0, 200)}`);
    return body;
  }

  ask(path: string): Promise<KeptAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<KeptAnswer>();
    const headers = { authorization: `Bearer ${PRODUCT_KEY}` };
    const sent = request(
      { host: '127.0.0.1', port: this.#port, path, agent: this.#agent, headers },
      (answer) => {
        let body = '';
        answer.setEncoding('utf8').on('data', (piece: string) => {
          body += piece;
        });
        answer.on('error', reject);
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
      },
    );
    sent.on('error', reject);
    sent.end();
    return promise;
  }

  close(): void {
    this.#agent.destroy();
  }
}
