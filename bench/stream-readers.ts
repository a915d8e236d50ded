/**
 * A process with many readers of the live stream. It opens the readers, counts the events that each receives, and
 * records when the last reader has received all. Its parent sends it jobs. Own process.
 */
import { connect, type Socket } from 'node:net';

export type ReadersJob =
  | { do: 'open'; port: number; key: string; readers: number; org_id: string }
  /** Answers `ready` at once, and answers again when every reader has received this many events since then. */
  | { do: 'hear'; events: number }
  /**
   * Answers `ready` at once, and answers again when all readers together have received this many comments since then.
   */
  | { do: 'beats'; comments: number }
  | { do: 'close' };

export interface ReadersReport {
  readers: number;
  /** When the last reader had all events, on the machine's monotonic clock in nanoseconds. */
  done_ns: string;
  bytes: number;
}

/** Connections that are opened at the same time, because the kernel's queue of a listener is short. */
const OPENING = 100;

const OPENED = 'retry: ';
const EVENT = 'event: ';

class Reader {
  readonly socket: Socket;
  events = 0;
  isOpen = false;
  /** The end of the last chunk, because a counted text may be split. */
  #rest = '';

  constructor(socket: Socket, onOpen: () => void) {
    this.socket = socket;
    socket.on('error', (error) => fail(error));
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      const text = this.#rest + chunk.toString('latin1');
      if (!this.isOpen && text.includes(OPENED)) {
        this.isOpen = true;
        onOpen();
      } else if (!this.isOpen && /^HTTP\/1.1 [^2]/.test(text)) {
        fail(new Error(text.split('\r\n')[0]));
      }
      const before = this.events;
      for (let at = text.indexOf(EVENT); at >= 0; at = text.indexOf(EVENT, at + 1)) this.events++;
      for (let at = text.indexOf(': \n'); at >= 0; at = text.indexOf(': \n', at + 1)) comments++;
      // The kept end is shorter than a counted text, so that no text is counted twice.
      this.#rest = text.slice(-2);
      if (text.endsWith(EVENT.slice(0, -1))) this.#rest = EVENT.slice(0, -1);
      else
        for (let n = EVENT.length - 1; n > 2; n--)
          if (text.endsWith(EVENT.slice(0, n))) this.#rest = EVENT.slice(0, n);
      if (before < wanted && this.events >= wanted && --missing === 0) finish();
      if (comments >= wantedComments) finish();
    });
  }
}

const readers: Reader[] = [];
let wanted = Number.POSITIVE_INFINITY;
let wantedComments = Number.POSITIVE_INFINITY;
let missing = 0;
let comments = 0;
let bytes = 0;

function finish(): void {
  wanted = Number.POSITIVE_INFINITY;
  wantedComments = Number.POSITIVE_INFINITY;
  const done_ns = process.hrtime.bigint().toString();
  process.send!({ readers: readers.length, done_ns, bytes } satisfies ReadersReport);
}

function fail(error: Error): never {
  process.send!({ error: error.message });
  process.exit(1);
}

async function open(job: Extract<ReadersJob, { do: 'open' }>): Promise<void> {
  const head = `GET /v1/monitor/stream?org_id=${job.org_id} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${job.key}\r\n\r\n`;
  let left = job.readers;
  const openSome = async (): Promise<void> => {
    while (left-- > 0) {
      await new Promise<void>((resolve) => {
        const socket = connect(job.port, '127.0.0.1', () => socket.write(head));
        readers.push(new Reader(socket, resolve));
      });
    }
  };
  await Promise.all(Array.from({ length: OPENING }, openSome));
  finish();
}

process.on('message', (job: ReadersJob) => {
  if (job.do === 'open') void open(job);
  else if (job.do === 'hear') {
    for (const reader of readers) reader.events = 0;
    wanted = job.events;
    missing = readers.length;
    process.send!('ready');
  } else if (job.do === 'beats') {
    comments = 0;
    wantedComments = job.comments;
    process.send!('ready');
  } else {
    for (const { socket } of readers) socket.destroy();
    readers.length = 0;
    finish();
  }
});
process.on('disconnect', () => process.exit(0));
process.send!({ ready: true });
