/**
 * Reads the messages of one direction of a WebSocket connection from copies of its bytes, and
 * inflates compressed ones. `ws` parses the frames. A reader stops at a close frame, at a malformed frame, at a message
 * that is too large, and when the memory bound is exceeded. Traffic never waits for a reader. Server threads.
 */
import * as ws from 'ws';

/** Maximum size of a message that is captured. A larger one is forwarded, and ends the capture of its connection. */
export const TUNNEL_MESSAGE_BYTES = 32 << 20;
/** Maximum bytes of incomplete messages that a server thread holds for capture. */
const TUNNEL_READING_BYTES = 128 << 20;

interface MessageEvents {
  onMessage: (data: Buffer, isBinary: boolean) => void;
  onClose: (code: number, reason: string) => void;
  /** Reading has ended before the direction did: a frame or message cannot be read, or there is no memory. */
  onGivenUp: () => void;
  /** Everything passed to `read` has been read, or reading has ended. */
  onIdle?: () => void;
}

/** Bytes of incomplete messages that all readers of this thread hold. */
let held_bytes = 0;

interface FrameReader {
  write(bytes: Buffer, done: () => void): boolean;
  destroy(): void;
  on(event: 'message', listener: (data: Buffer, isBinary: boolean) => void): void;
  on(event: 'conclude', listener: (code: number, reason: Buffer) => void): void;
  on(event: 'error', listener: () => void): void;
}

/** Members that the types of `ws` lack. */
const { Receiver, PerMessageDeflate, extension } = ws as unknown as {
  Receiver: new (options: object) => FrameReader;
  PerMessageDeflate: { new (options: object): { params: object }; extensionName: string };
  extension: { parse(text: string): Record<string, Record<string, (string | true)[]>[]> };
};

export class MessageReader {
  readonly #frames: FrameReader;
  readonly #events: MessageEvents;
  /** Bytes since the last message. */
  #heldBytes = 0;
  #isDone = false;
  /** Number of pieces that are being read, because inflating is asynchronous. */
  #pieces = 0;

  /**
   * @param isMasked the client's direction
   * @param extensions `Sec-WebSocket-Extensions` of the answer; '' for none
   * @throws Error for an extension that is not supported
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

  /** Reads the next bytes of the direction. @param bytes owned by the reader from now on */
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
  // The upstream's answer states the agreed parameters, so there is nothing to negotiate.
  deflate.params = Object.fromEntries(
    Object.entries(params).map(([name, [value]]) => [name, value === true ? true : Number(value)]),
  );
  return { [extensionName]: deflate };
}
