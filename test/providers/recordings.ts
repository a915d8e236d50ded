/**
 * Reads the recorded provider traffic for the decoder tests. The traffic is not part of the repository. If it is
 * missing, the tests that need it are skipped.
 */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { classifyRequest, type RequestClass } from '../../src/providers/classify.ts';
import type { StoredExchange } from '../../src/providers/decode.ts';
import { sharedFile } from '../fixtures/shared.ts';

const FILES = {
  mirascope: sharedFile('recordings/mirascope.jsonl.gz'),
  'pydantic-ai': sharedFile('recordings/pydantic-ai.jsonl.gz'),
};

export const RECORDED_LIBRARIES = ['mirascope', 'pydantic-ai'] as const;

export const haveRecordings = Object.values(FILES).every(({ is_there }) => is_there);

interface RecordedBody {
  text?: string;
  base64?: string;
}

interface RecordedLine {
  source: string;
  provider: string;
  method: string;
  url: string;
  request: { headers: [string, string][]; body: RecordedBody | null };
  response: { status: number; headers: [string, string][]; body: RecordedBody | null };
}

export interface Recording {
  line: RecordedLine;
  kind: RequestClass['kind'];
  stored: StoredExchange;
}

/** Every recorded exchange of a file, in the form of a captured one. */
export function* readRecordings(name: keyof typeof FILES): Generator<Recording> {
  const text = gunzipSync(readFileSync(FILES[name].path)).toString('utf8');
  for (const raw of text.split('\n')) {
    if (raw === '') continue;
    const line = JSON.parse(raw) as RecordedLine;
    const url = new URL(line.url);
    const route = url.host.startsWith('bedrock')
      ? 'bedrock'
      : url.host.includes('google')
        ? 'gemini'
        : 'default';
    const { kind, shape } = classifyRequest(route, line.method, url.pathname);
    yield {
      line,
      kind,
      stored: {
        shape,
        path: url.pathname,
        status: line.response.status,
        request_headers: line.request.headers.flat(),
        response_headers: line.response.headers.flat(),
        request_body: readBody(line.request.body),
        response_body: readBody(line.response.body),
        truncated: false,
      },
    };
  }
}

function readBody(body: RecordedBody | null): Uint8Array {
  if (body?.base64 !== undefined) return Buffer.from(body.base64, 'base64');
  return Buffer.from(body?.text ?? '', 'utf8');
}

/** Counts of the Messages API as they are billed: the sums over all iterations of an answer. */
export function sumIterations(
  { line }: Recording,
  usage: object,
  name: 'input_tokens' | 'output_tokens',
): number {
  // The SDK's stream helper drops the iterations, so they are read from the bytes.
  const told = /"iterations": ?(\[[^\]]*\])/.exec(line.response.body?.text ?? '')?.[1];
  const inStream = told === undefined ? undefined : (JSON.parse(told) as Record<typeof name, number>[]);
  const { iterations = inStream } = usage as { iterations?: Record<typeof name, number>[] | null };
  const rounds = iterations?.length ? iterations : [usage as Record<typeof name, number>];
  return rounds.reduce((sum, round) => sum + round[name], 0);
}

export function header(recording: Recording, name: string): string {
  return recording.line.response.headers.find(([key]) => key.toLowerCase() === name)?.[1] ?? '';
}

export function isStream(recording: Recording): boolean {
  return header(recording, 'content-type').includes('event');
}

/** A fetch that always answers with the recorded bytes. */
export function answering(recording: Recording): typeof fetch {
  return async () => {
    const headers = new Headers({ 'content-type': header(recording, 'content-type') });
    const body = recording.stored.response_body;
    // fetch decodes the content encoding, so a fake one must do it too.
    const gzip = body[0] === 0x1f && body[1] === 0x8b;
    const stream = new Blob([body as Uint8Array<ArrayBuffer>]).stream();
    return new Response(gzip ? stream.pipeThrough(new DecompressionStream('gzip')) : stream, {
      status: recording.stored.status,
      headers,
    });
  };
}
