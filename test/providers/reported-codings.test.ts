/** Reported bodies in zstd of several frames and gzip of several members are read whole. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { decodeContent } from '../../src/providers/content-encoding.ts';
import { sharedFile } from '../fixtures/shared.ts';

/** The length and the end of each decoded body. */
const CASES: [name: string, coding: string, bytes: number, end: string][] = [
  ['s1-zstd-request.0.request', 'zstd', 0, '}'],
  ['s2-zstd-two-frames.0.request', 'zstd', 430, '}'],
  ['s3-gzip-two-members-answer.0.response', 'gzip', 0, '}'],
  ['s4-zstd-answer-stream.0.response', 'zstd', 0, 'data: [DONE]\n\n'],
  ['s5-zstd-upper-case.0.request', 'ZSTD', 0, '}'],
  ['zstd-frame-per-event.response', 'zstd', 611, 'data: [DONE]\n\n'],
];

describe('reported compressed bodies', () => {
  for (const [name, coding, bytes, end] of CASES) {
    const file = sharedFile(`reported/${name}`);
    it.skipIf(!file.is_there)(`${name} ${file.needed}`, () => {
      const decoded = decodeContent(readFileSync(file.path), ['content-encoding', coding]);
      const text = Buffer.from(decoded.bytes).toString();
      expect(decoded.problem).toBe('');
      expect(text.endsWith(end), text).toBe(true);
      if (end === '}') JSON.parse(text);
      if (bytes > 0) expect(text.length).toBe(bytes);
    });
  }
});
