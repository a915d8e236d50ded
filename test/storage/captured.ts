/** Makes captured exchanges for the storage tests. Used in tests and in the processes that tests kill. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';

import type { CapturedExchange } from '../../src/domain/exchange.ts';

/** An exchange with plausible values, some of which a test replaces. */
export function makeExchange(part: Partial<CapturedExchange> = {}): CapturedExchange {
  const request = part.request_body ?? Buffer.alloc(0);
  const response = part.response_body ?? Buffer.alloc(0);
  return {
    run_id: null,
    seq: null,
    note: '',
    provider: 'anthropic',
    kind: 'turn',
    shape: 'messages',
    method: 'POST',
    path: '/v1/messages',
    query: '',
    status: 200,
    started_at_ms: 1_760_000_000_000,
    first_byte_ms: 12.5,
    duration_ms: 40.25,
    aborted: false,
    truncated: false,
    served_by: 'upstream',
    request_headers: ['host', 'api.example', 'content-type', 'application/json'],
    response_headers: ['content-type', 'application/json', 'request-id', 'req_011CSHoEeqs5C35K2UUqR7Fy'],
    request_bytes: request.length,
    response_bytes: response.length,
    ...part,
    request_body: request,
    response_body: response,
  };
}

/** Every file below a folder, with its bytes. */
export function readAllFiles(folder: string): { path: string; bytes: Buffer }[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => ({ path, bytes: readFileSync(path) }));
}

/** Finds words in a file's path, in its plain bytes, or in an unpacked frame of zstd. @returns the places */
export function findAnywhere(folder: string, words: string): string[] {
  const found: string[] = [];
  const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
  for (const { path, bytes } of readAllFiles(folder)) {
    if (bytes.includes(words) || path.includes(words)) found.push(path);
    for (let at = bytes.indexOf(magic); at >= 0; at = bytes.indexOf(magic, at + 1)) {
      // The bytes after the frame in its page are ignored.
      for (const end of [bytes.length, at + 8_192, at + 2_048]) {
        try {
          if (zstdDecompressSync(bytes.subarray(at, end)).includes(words)) found.push(`${path} in a frame`);
          break;
        } catch {
          // These bytes are not a frame, or the frame needs a dictionary. Tests check such frames with the reader.
        }
      }
    }
  }
  return found;
}
