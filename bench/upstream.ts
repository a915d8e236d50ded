/**
 * The provider of the bench. It uses uWebSockets.js, which is so fast that the bench measures only the targets. Own
 * process: a suite forks it, with the files of a certificate and its key if the upstream should use TLS. It sends
 * `{port}` when it listens, and ends with its parent.
 *
 *   POST any?reply=BYTES   reads the body, answers a Messages JSON body of exactly BYTES bytes, fresh each time
 *   POST any?reply=echo    answers the request's body
 *   POST any?reply=stream  64 server-sent frames, one every 20 ms, each with its number and the time it was sent
 */
import uWS from 'uWebSockets.js';
import { type FreshBody, makeAnswer } from './workload.ts';

/** Frames of a stream and the time between two. */
const STREAM_FRAMES = 64;
const STREAM_PACE_US = 20_000;

/** Microseconds of the machine's monotonic clock: comparable between processes of one machine. */
const nowUs = (): number => Number(process.hrtime.bigint() / 1000n);

interface PacedStream {
  res: uWS.HttpResponse;
  startUs: number;
  sent: number;
}

const answers = new Map<number, FreshBody>();
const streams = new Set<PacedStream>();
let answered = 0;

function answer(res: uWS.HttpResponse, bytes: number): void {
  let body = answers.get(bytes);
  if (!body) {
    body = makeAnswer(bytes);
    answers.set(bytes, body);
  }
  body.refresh(++answered);
  res.cork(() => {
    res.writeHeader('content-type', 'application/json');
    res.writeHeader('request-id', `req_bench_${answered}`);
    res.writeHeader('anthropic-organization-id', '00000000-0000-0000-0000-000000000000');
    res.end(body.buffer);
  });
}

const event = (name: string, data: string): string => `event: ${name}\ndata: {"type":"${name}",${data}}\n\n`;

function startStream(res: uWS.HttpResponse): void {
  const stream: PacedStream = { res, startUs: nowUs(), sent: 0 };
  streams.add(stream);
  res.onAborted(() => streams.delete(stream));
  res.cork(() => {
    res.writeHeader('content-type', 'text/event-stream; charset=utf-8');
    res.writeHeader('cache-control', 'no-cache');
    res.write(
      event(
        'message_start',
        '"message":{"id":"msg_bench","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}',
      ) + event('content_block_start', '"index":0,"content_block":{"type":"text","text":""}'),
    );
  });
}

/**
 * Sends the frames that are due. Each contains its number, when it was sent, and when it should have been sent
 * (microseconds).
 */
function paceStreams(): void {
  for (const stream of streams) {
    const dueUs = stream.startUs + (stream.sent + 1) * STREAM_PACE_US;
    const now = nowUs();
    if (now < dueUs) continue;
    stream.sent++;
    const text = `@${stream.sent} ${now} ${dueUs} some words of the answer `;
    const last = stream.sent === STREAM_FRAMES;
    if (last) streams.delete(stream);
    stream.res.cork(() => {
      stream.res.write(
        event('content_block_delta', `"index":0,"delta":{"type":"text_delta","text":"${text}"}`),
      );
      if (last) {
        stream.res.end(
          event('content_block_stop', '"index":0') +
            event(
              'message_delta',
              `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":${STREAM_FRAMES * 8}}`,
            ) +
            event('message_stop', '"n":0'),
        );
      }
    });
  }
}

// One timer for all streams, because hundreds of timers would cost more than the frames. 2 ms is a tenth of the pace.
setInterval(paceStreams, 2);

const [cert, key] = process.argv.slice(2);
const app =
  cert === undefined || key === undefined
    ? uWS.App()
    : uWS.SSLApp({ cert_file_name: cert, key_file_name: key });
app.any('/*', (res, req) => {
  const reply = new URLSearchParams(req.getQuery() ?? '').get('reply') ?? '4096';
  const parts: Buffer[] = [];
  res.onAborted(() => undefined);
  const finish = (): void => {
    if (reply === 'stream') startStream(res);
    else if (reply === 'echo') res.cork(() => res.end(Buffer.concat(parts)));
    else answer(res, Number(reply));
  };
  if (req.getMethod() === 'get') return finish();
  res.onData((chunk, isLast) => {
    // uWebSockets.js reuses the chunk after this returns, so the echo copies it.
    if (reply === 'echo') parts.push(Buffer.from(chunk.slice(0)));
    if (isLast) finish();
  });
});
app.listen('127.0.0.1', 0, (socket) => {
  if (!socket) throw new Error('the bench upstream found no port');
  process.send?.({ port: uWS.us_socket_local_port(socket) });
});
process.on('disconnect', () => process.exit(0));
