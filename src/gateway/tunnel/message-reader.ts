/**
 * Reads the messages of one direction of a WebSocket connection out of copies of its bytes, deflated ones too. The frames are
 * read by `ws`. It holds no more than it may, and gives up instead: nobody waits for it. Server threads.
 */
import * as ws from 'ws';
import { TUNNEL_MESSAGE_BYTES, TUNNEL_READING_BYTES } from '../../limits.ts';

export interface MessageEvents {
  onMessage: (data: Buffer, isBinary: boolean) => void;
  onClose: (code: number, reason: string) => void;
  /** Nothing more is read of this direction. */
  onGivenUp: () => void;
  /** All that was given is read, after `isBusy`. */
  onIdle?: () => void;
}

/** What all readers of this thread hold of messages that are not whole. */
let held_bytes = 0;

interface FrameReader {
  write(bytes: Buffer, done: () => void): boolean;
  destroy(): void;
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): void;
  on(event: 'conclude', listener: (code: number, reason: Buffer) => void): void;
  on(event: 'error', listener: () => void): void;
}

/** What the types of `ws` leave out. */
const { Receiver, PerMessageDeflate, extension } = ws as unknown as {
  Receiver: new (options: object) => FrameReader;
  PerMessageDeflate: { new (options: object): { params: object }; extensionName: string };
  extension: { parse(text: string): Record<string, Record<string, (string | true)[]>[]> };
};

export class MessageReader {
  readonly #frames: FrameReader;
  readonly #events: MessageEvents;
  /** Since the last message. */
  #heldBytes = 0;
  #isDone = false;
  /** Pieces that are being read: deflated ones take a moment. */
  #pieces = 0;

  /**
   * @param isMasked the client's direction
   * @param extensions `Sec-WebSocket-Extensions` of the answer; '' for none
   * @throws Error for an extension that nobody here knows
   */
  constructor(isMasked: boolean, extensions: string, events: MessageEvents) {
    this.#events = events;
    this.#frames = new Receiver({
      isServer: isMasked,
      maxPayload: TUNNEL_MESSAGE_BYTES,
      skipUTF8Validation: true,
      extensions: readExtensions(isMasked, extensions),
    });
    this.#frames.on('message', (data, isBinary) => {
      this.#forget();
      if (!this.#isDone) events.onMessage(data, isBinary);
    });
    this.#frames.on('conclude', (code, reason) => {
      if (!this.#isDone) events.onClose(code, reason.toString());
      this.end();
    });
    this.#frames.on('error', () => this.#giveUp());
  }

  /** @param bytes are the reader's from now on */
  read(bytes: Buffer): void {
    if (this.#isDone) return;
    this.#heldBytes += bytes.length;
    held_bytes += bytes.length;
    if (held_bytes > TUNNEL_READING_BYTES) {
      this.#giveUp();
      return;
    }
    this.#pieces++;
    this.#frames.write(bytes, this.#onRead);
  }

  get isBusy(): boolean {
    return this.#pieces > 0 && !this.#isDone;
  }

  readonly #onRead = (): void => {
    if (--this.#pieces === 0 && !this.#isDone) this.#events.onIdle?.();
  };

  end(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#forget();
    this.#frames.destroy();
    this.#events.onIdle?.();
  }

  #forget(): void {
    held_bytes -= this.#heldBytes;
    this.#heldBytes = 0;
  }

  #giveUp(): void {
    if (this.#isDone) return;
    this.end();
    this.#events.onGivenUp();
  }
}

function readExtensions(isMasked: boolean, text: string): object {
  const { extensionName } = PerMessageDeflate;
  const agreed = text === '' ? {} : extension.parse(text);
  const names = Object.keys(agreed);
  if (names.some((name) => name !== extensionName)) throw new Error('an unknown extension');
  const [params] = agreed[extensionName] ?? [];
  if (params === undefined) return {};
  const deflate = new PerMessageDeflate({ isServer: isMasked, maxPayload: TUNNEL_MESSAGE_BYTES });
  // What was agreed on stands in the answer: there is nothing to choose.
  deflate.params = Object.fromEntries(
    Object.entries(params).map(([name, [value]]) => [name, value === true ? true : Number(value)]),
  );
  return { [extensionName]: deflate };
}
