/**
 * Reads N paced streams at once. It counts every frame, and measures the time since the upstream sent it. Both ends
 * read the machine's monotonic clock. Runs in the load process.
 */
import { Agent, type ClientRequest, request } from 'node:http';
import { type Quantiles, Samples } from './quantiles.ts';

export interface StreamsJob {
  port: number;
  streams: number;
  framesPerStream: number;
}

export interface StreamsResult {
  /** Streams that ended with their last event and a clean end of the body. */
  complete: number;
  failed: number;
  frames: number;
  /** Expected frames that were missing, repeated or out of order. */
  lost: number;
  /** From the upstream's send to our read, milliseconds. */
  lateMs: Quantiles;
  /**
   * How late the upstream itself sent the frames, in milliseconds. The machine was too slow if this is more than a few.
   */
  paceMs: Quantiles;
  elapsedS: number;
}

const STREAM_LIMIT_MS = 30_000;

const BODY = JSON.stringify({
  model: 'claude-sonnet-4-5',
  max_tokens: 1024,
  stream: true,
  messages: [{ role: 'user', content: 'Say something long.' }],
});

/** Reads the upstream's figures in a frame; null for an event without figures. */
function readFrame(text: string): { number: number; sentUs: number; dueUs: number } | null {
  const at = text.indexOf('"text":"@');
  if (at === -1) return null;
  const [number = 0, sentUs = 0, dueUs = 0] = text
    .slice(at + 9, at + 60)
    .split(' ', 3)
    .map(Number);
  return { number, sentUs, dueUs };
}

/** Opens all streams together and reads them to their end. A stream that takes 30 s counts as failed. */
export async function measureStreams(job: StreamsJob): Promise<StreamsResult> {
  const late = new Samples();
  const pace = new Samples();
  const agent = new Agent({ keepAlive: false });
  let complete = 0;
  let frames = 0;
  let lost = 0;
  const startedAt = process.hrtime.bigint();

  const readOne = (): Promise<void> =>
    new Promise((resolve) => {
      let expected = 1;
      let rest = '';
      let ended = false;
      const req: ClientRequest = request({
        host: '127.0.0.1',
        port: job.port,
        path: '/v1/messages?reply=stream',
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json', 'content-length': BODY.length },
      });
      const limit = setTimeout(() => req.destroy(), STREAM_LIMIT_MS);
      const close = (): void => {
        if (ended) return;
        ended = true;
        clearTimeout(limit);
        lost += job.framesPerStream - (expected - 1);
        resolve();
      };
      const readEvent = (text: string, nowUs: number): void => {
        const frame = readFrame(text);
        if (frame === null) return;
        frames++;
        if (frame.number !== expected) lost++;
        else expected++;
        late.add((nowUs - frame.sentUs) / 1000);
        pace.add((frame.sentUs - frame.dueUs) / 1000);
      };
      req.on('response', (res) => {
        let sawStop = false;
        res.setEncoding('latin1');
        res.on('data', (chunk: string) => {
          const nowUs = Number(process.hrtime.bigint() / 1000n);
          const events = `${rest}${chunk}`.split('\n\n');
          rest = events.pop()!;
          for (const text of events)
            if (text.startsWith('event: message_stop')) sawStop = true;
            else readEvent(text, nowUs);
        });
        res.on('end', () => {
          if (sawStop && res.statusCode === 200) complete++;
          close();
        });
        res.on('close', close);
        res.on('error', close);
      });
      req.on('error', close);
      req.end(BODY);
    });

  await Promise.all(Array.from({ length: job.streams }, readOne));
  agent.destroy();
  const elapsedS = Number(process.hrtime.bigint() - startedAt) / 1e9;
  const failed = job.streams - complete;
  return { complete, failed, frames, lost, lateMs: late.quantiles(), paceMs: pace.quantiles(), elapsedS };
}
