/**
 * A keep-alive connection that posts JSON and reads complete answers. It uses a raw socket, so that the client itself
 * costs little. In the process of a suite.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { PRODUCT_KEY } from './product.ts';

const HEAD_END = '\r\n\r\n';

export class JsonLine {
  readonly #socket: Socket;
  #bytes: Buffer = Buffer.alloc(0);
  #waiting: { resolve(answer: unknown): void; reject(error: Error): void } | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#socket.on('data', (chunk) => this.#read(chunk));
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('the connection was closed')));
  }

  static async open(port: number): Promise<JsonLine> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new JsonLine(socket);
  }

  /**
   * Posts JSON and waits for the answer. Do not call this again before the answer has arrived.
   * @throws Error if the answer is not 200 with a content-length, or the connection breaks
   */
  post(path: string, body: object): Promise<unknown> {
    const text = JSON.stringify(body);
    return new Promise((resolve, reject) => {
      if (this.#waiting !== null) throw new Error('a request is already in progress');
      this.#waiting = { resolve, reject };
      this.#socket.write(
        `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${PRODUCT_KEY}\r\n` +
          `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    const bodyAt = this.#bytes.indexOf(HEAD_END) + HEAD_END.length;
    if (bodyAt < HEAD_END.length) return;
    const head = this.#bytes.toString('latin1', 0, bodyAt);
    const length = /\r\ncontent-length: *(\d+)\r\n/i.exec(head);
    if (length === null) return this.#fail(new Error(`the answer has no content-length: ${head}`));
    const end = bodyAt + Number(length[1]);
    if (this.#bytes.length < end) return;
    const body = this.#bytes.toString('utf8', bodyAt, end);
    this.#bytes = this.#bytes.subarray(end);
    if (!head.startsWith('HTTP/1.1 200 ')) return this.#fail(new Error(`${head}${body.slice(0, 200)}`));
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.resolve(JSON.parse(body));
  }

  #fail(error: Error): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.reject(error);
  }
}
