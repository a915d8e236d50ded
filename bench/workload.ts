/**
 * Makes the bodies of the bench: JSON of a given size, fresh for each request, with little processor time. Runs in the
 * upstream process and in the load processes; pure except for its counters.
 *
 * Repeated bodies would make capture look cheaper than it is. So each answer and each plain request has a serial
 * number, 384 bytes that hardly compress, and a window of prose that moves with the number. Each turn of a conversation
 * adds such bytes and such a window. The prose is made of invented words whose frequencies follow Zipf's law, so that
 * it compresses about as natural text does.
 */

/** Makes a small fast generator (xorshift32). It is seeded, so that two runs send the same bytes. */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
}

const PROSE_BYTES = 4 * 1024 * 1024;
const NOISE_BYTES = 1024 * 1024;
/**
 * Random bytes in each body. They differ from those of the thousands of bodies before, and compress to no less than 6
 * bits per byte.
 */
const NOISE_PER_BODY = 384;

function makeProse(): Buffer {
  const random = makeRandom(7);
  const syllables =
    'ba co di fe gu ha jo ki la me nu po qui ra se tu va we xi yo za tion ment ing er re un'.split(' ');
  const words: string[] = [];
  for (let i = 0; i < 3000; i++) {
    let word = '';
    for (let s = 0; s <= random() % 3; s++) word += syllables[random() % syllables.length];
    words.push(word);
  }
  const out = Buffer.alloc(PROSE_BYTES, 0x20);
  let at = 0;
  while (at < PROSE_BYTES - 16) {
    // Zipf by inversion: rank ~ n^u with u uniform, close enough to 1/rank.
    const rank = Math.floor(words.length ** (random() / 0xffffffff)) - 1;
    at += out.write(words[rank] ?? 'a', at, 'latin1');
    at += out.write(random() % 12 === 0 ? '. ' : ' ', at, 'latin1');
  }
  return out;
}

function makeNoise(): Buffer {
  const random = makeRandom(11);
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const out = Buffer.alloc(NOISE_BYTES);
  for (let i = 0; i < NOISE_BYTES; i++) out[i] = alphabet.charCodeAt(random() >>> 26);
  return out;
}

const prose = makeProse();
const noise = makeNoise();

/** Copies `length` bytes of prose into `into` at `at`; `turn` chooses the bytes. */
function putProse(into: Buffer, at: number, length: number, turn: number): void {
  const room = PROSE_BYTES - length;
  const from = (Math.imul(turn, 2654435761) >>> 0) % room;
  prose.copy(into, at, from, from + length);
}

function putNoise(into: Buffer, at: number, turn: number): void {
  const from = (Math.imul(turn, 40503) >>> 0) % (NOISE_BYTES - NOISE_PER_BODY);
  noise.copy(into, at, from, from + NOISE_PER_BODY);
}

/**
 * A JSON body. `refresh(n)` rewrites it in place for the n-th request, which takes as long as a memory copy. The caller
 * must send the body before the next refresh.
 */
export interface FreshBody {
  buffer: Buffer;
  refresh: (n: number) => void;
}

/**
 * Writes a fresh body to `buffer` at `offset`: `before`, then "#number noise prose", then `after`. Throws if `bytesMin`
 * leaves no room for the text.
 * @returns a function that rewrites the body for the n-th request, with a given number of bytes
 */
function layBody(
  buffer: Buffer,
  offset: number,
  bytesMin: number,
  before: string,
  after: string,
): (n: number, bytes: number) => void {
  const textAt = offset + before.length;
  const textBytes = bytesMin - before.length - after.length;
  const proseAt = textAt + 12 + NOISE_PER_BODY + 1;
  if (textBytes < 12 + NOISE_PER_BODY + 2)
    throw new Error(`a body of ${bytesMin} bytes has no room for its text`);
  buffer.write(before, offset, 'latin1');
  buffer[proseAt - 1] = 0x20;
  return (n, bytes) => {
    const afterAt = offset + bytes - after.length;
    buffer.write(`#${String(n % 10_000_000_000).padStart(10, '0')} `, textAt, 'latin1');
    putNoise(buffer, textAt + 12, n);
    putProse(buffer, proseAt, afterAt - proseAt, n);
    buffer.write(after, afterAt, 'latin1');
  };
}

/** Makes a Messages answer of exactly `bytes` bytes. */
export function makeAnswer(bytes: number): FreshBody {
  const buffer = Buffer.alloc(bytes);
  const lay = layBody(
    buffer,
    0,
    bytes,
    '{"id":"msg_bench","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"',
    '"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1024,"output_tokens":512,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}}',
  );
  return { buffer, refresh: (n) => lay(n, bytes) };
}

/**
 * Writes request headers like those of a provider's SDK, because their number and size matter to a proxy.
 * @param extra further headers, each with CRLF at its end
 */
function requestHead(path: string, host: string, contentLength: number, extra: string): string {
  return (
    `POST ${path} HTTP/1.1\r\n` +
    `Host: ${host}\r\n` +
    'Connection: keep-alive\r\n' +
    'Accept: application/json\r\n' +
    'Content-Type: application/json\r\n' +
    'User-Agent: Anthropic/JS 1.11.0\r\n' +
    'X-Stainless-Lang: js\r\n' +
    'X-Stainless-Package-Version: 1.11.0\r\n' +
    'X-Stainless-OS: Linux\r\n' +
    'X-Stainless-Arch: x64\r\n' +
    'X-Stainless-Runtime: node\r\n' +
    'X-Stainless-Runtime-Version: v22.18.0\r\n' +
    'X-Stainless-Retry-Count: 0\r\n' +
    'anthropic-version: 2023-06-01\r\n' +
    'X-Api-Key: sk-ant-bench-000000000000000000000000000000000000\r\n' +
    extra +
    `Content-Length: ${contentLength}\r\n\r\n`
  );
}

/** What a load sends. */
export type Workload =
  /** `bytes`: size of the answer, and average size of a request's body. `headers`: more headers, each with its CRLF. */
  | { kind: 'plain'; bytes: number; headers?: string }
  /**
   * Each request of a run is longer than the previous one. `bytes`: size of the last turn's request; by default 110 KB.
   */
  | { kind: 'conversation'; bytes?: number; headers?: string };

/** Gives the bytes of a connection's next request, head included; valid until the next call. */
export type RequestSource = () => Buffer;

let requestNumber = 0;

/** A request's body is shorter or longer by up to this much, because a client's `Content-Length` varies. */
const SPREAD_BYTES = 96;

/** Requests of similar size for one connection to `host`, each with its own body and length. */
export function makePlainRequests(bytes: number, host: string, headers = ''): RequestSource {
  const bytesMin = bytes - SPREAD_BYTES;
  const head = requestHead(`/v1/messages?reply=${bytes}`, host, bytesMin, headers);
  const lengthAt = head.length - 4 - String(bytesMin).length;
  const buffer = Buffer.alloc(head.length + bytes + SPREAD_BYTES);
  buffer.write(head, 0, 'latin1');
  const lay = layBody(
    buffer,
    head.length,
    bytesMin,
    '{"model":"claude-sonnet-4-5","max_tokens":1024,"messages":[{"role":"user","content":"',
    '"}]}',
  );
  const random = makeRandom(bytes);
  return () => {
    const bytesNow = bytesMin + (random() % (2 * SPREAD_BYTES + 1));
    const length = String(bytesNow);
    if (length.length !== head.length - 4 - lengthAt)
      throw new Error(`a body of ${length} bytes needs a longer or shorter head`);
    buffer.write(length, lengthAt, 'latin1');
    lay(++requestNumber, bytesNow);
    return buffer.subarray(0, head.length + bytesNow);
  };
}

/**
 * Turns of a conversation, and how it grows by default: from about 60 KB to about 110 KB, as a coding agent's context
 * does.
 */
export const CONVERSATION_TURNS = 20;
const TURN_BYTES = 2560;
const CONVERSATION_BYTES = 110 * 1024;
const CONVERSATION_REPLY_BYTES = 1536;
const HEAD_ROOM = 1024;

/**
 * Makes the requests of one agent, which has one run after the other (`x-svc-run`, `x-svc-seq`). A run has 20 turns,
 * and each request contains the whole conversation so far. System prompt and tools are the same in all runs.
 * @param bytesMax size of the last turn's request
 */
function makeConversationRequests(
  port: number,
  agent: number,
  bytesMax: number,
  headers: string,
): RequestSource {
  const system = bytesMax - CONVERSATION_TURNS * TURN_BYTES;
  const before =
    '{"model":"claude-sonnet-4-5","max_tokens":1024,"system":[{"type":"text","text":"' +
    prose.toString('latin1', 0, system) +
    '"}],"tools":[{"name":"bash","description":"runs a command","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}}],"messages":[';
  const buffer = Buffer.alloc(HEAD_ROOM + before.length + CONVERSATION_TURNS * TURN_BYTES + 64);
  buffer.write(before, HEAD_ROOM, 'latin1');
  const messagesAt = HEAD_ROOM + before.length;
  let run = 0;
  let turn = 0;
  let at = messagesAt;
  return () => {
    if (turn === 0) {
      run++;
      at = messagesAt;
    }
    const number = ++requestNumber;
    const id = `toolu_${String(number).padStart(10, '0')}`;
    const opening =
      turn === 0
        ? '{"role":"user","content":[{"type":"text","text":"'
        : `,{"role":"assistant","content":[{"type":"tool_use","id":"${id}","name":"bash","input":{"command":"run ${number}"}}]},` +
          `{"role":"user","content":[{"type":"tool_result","tool_use_id":"${id}","content":"`;
    const closing = '"}]}';
    at += buffer.write(opening, at, 'latin1');
    putNoise(buffer, at, number);
    buffer[at + NOISE_PER_BODY] = 0x20;
    const text = TURN_BYTES - opening.length - closing.length;
    putProse(buffer, at + NOISE_PER_BODY + 1, text - NOISE_PER_BODY - 1, number);
    at += text;
    at += buffer.write(closing, at, 'latin1');
    const end = at + buffer.write(']}', at, 'latin1');
    const head = requestHead(
      `/v1/messages?reply=${CONVERSATION_REPLY_BYTES}`,
      `127.0.0.1:${port}`,
      end - HEAD_ROOM,
      `x-svc-run: bench-${agent}-${run}\r\nx-svc-seq: ${turn + 1}\r\n${headers}`,
    );
    const start = HEAD_ROOM - head.length;
    buffer.write(head, start, 'latin1');
    turn = (turn + 1) % CONVERSATION_TURNS;
    return buffer.subarray(start, end);
  };
}

/** Makes the requests of one connection under `workload`. @param connection number of the connection within the load */
export function makeRequests(workload: Workload, port: number, connection: number): RequestSource {
  if (workload.kind === 'plain')
    return makePlainRequests(workload.bytes, `127.0.0.1:${port}`, workload.headers);
  const { bytes = CONVERSATION_BYTES, headers = '' } = workload;
  return makeConversationRequests(port, connection, bytes, headers);
}
