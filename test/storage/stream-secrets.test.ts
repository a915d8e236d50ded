/** Secrets that a streamed answer sends in pieces. */
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packNeedles } from '../../native/byte-engine.ts';
import { findSplitSecrets, maskEventStream } from '../../src/storage/capture/stream-secrets.ts';

const key = `sk-ant-api03-${randomBytes(30).toString('hex')}`;
const credential = `own-credential-${randomBytes(12).toString('hex')}`;
const needles = [Buffer.from(credential)];
const wanted = { needles, packed: packNeedles(needles), shapes: true };
const nothing = { needles: [], packed: packNeedles([]), shapes: false };

/** Positions at which a text is cut, ascending. */
function cutAt(text: string, places: number[]): string[] {
  const sorted = [0, ...places.map((place) => place % text.length), text.length].sort((a, b) => a - b);
  return sorted.slice(1).map((end, i) => text.slice(sorted[i]!, end));
}

function makeSse(pieces: string[], member: string): Buffer {
  return Buffer.from(
    pieces
      .map(
        (piece) =>
          `event: delta\ndata: ${JSON.stringify({ type: 'd', delta: { type: 'x', [member]: piece } })}\n\n`,
      )
      .join(''),
  );
}

function makeFrame(payload: string): Buffer {
  const headers = Buffer.from('\u000b:event-type\u0007\u0000\u0005chunk', 'latin1');
  const body = Buffer.from(payload);
  const out = Buffer.alloc(16 + headers.length + body.length);
  out.writeUInt32BE(out.length, 0);
  out.writeUInt32BE(headers.length, 4);
  out.writeUInt32BE(crc32(out.subarray(0, 8)), 8);
  headers.copy(out, 12);
  body.copy(out, 12 + headers.length);
  out.writeUInt32BE(crc32(out.subarray(0, out.length - 4)), out.length - 4);
  return out;
}

/** Checks lengths and both checksums of complete frames. @returns their payloads */
function readPayloads(stream: Buffer): string[] {
  const payloads: string[] = [];
  for (let at = 0; at < stream.length; ) {
    const total = stream.readUInt32BE(at);
    const headerBytes = stream.readUInt32BE(at + 4);
    expect(stream.readUInt32BE(at + 8)).toBe(crc32(stream.subarray(at, at + 8)));
    expect(stream.readUInt32BE(at + total - 4)).toBe(crc32(stream.subarray(at, at + total - 4)));
    payloads.push(stream.toString('utf8', at + 12 + headerBytes, at + total - 4));
    at += total;
  }
  return payloads;
}

const text = `Sure, the key is ${key} and yours ${credential}, "quoted" and\nnew.`;
const cuts = fc.array(fc.nat(1_000), { maxLength: 40 });
const masked = /^Sure, the key is (\[redacted\])+ and yours (\[redacted\])+, "quoted" and\nnew\.$/;

describe('secrets in pieces', () => {
  it('are found in server-sent events that are cut at any place', () => {
    fc.assert(
      fc.property(
        cuts,
        fc.constantFrom('text', 'content', 'partial_json', 'arguments', 'thinking'),
        (places, member) => {
          const body = makeSse(cutAt(text, [30, ...places]), member);
          let out = '';
          let at = 0;
          const ranges = findSplitSecrets(body, wanted).sort((a, b) => a.start - b.start);
          for (const range of ranges) {
            out += `${body.toString('utf8', at, range.start)}[redacted]`;
            at = range.end;
          }
          out += body.toString('utf8', at);
          const joined = out
            .split('\n\n')
            .filter((event) => event !== '')
            .map(
              (event) =>
                (JSON.parse(event.slice(event.indexOf('{'))) as { delta: Record<string, string> }).delta[
                  member
                ],
            )
            .join('');
          expect(joined).toMatch(masked);
        },
      ),
    );
  });

  it('are masked in AWS event streams, whose checksums stay right', () => {
    fc.assert(
      fc.property(cuts, fc.boolean(), (places, wrapped) => {
        const events = cutAt(text, places).map((piece) => JSON.stringify({ delta: { text: piece } }));
        const frames = events.map((event) =>
          makeFrame(
            wrapped ? JSON.stringify({ bytes: Buffer.from(event).toString('base64'), p: 'abc' }) : event,
          ),
        );
        const payloads = readPayloads(maskEventStream(Buffer.concat(frames), wanted)).map((payload) =>
          wrapped
            ? Buffer.from((JSON.parse(payload) as { bytes: string }).bytes, 'base64').toString()
            : payload,
        );
        const joined = payloads
          .map((payload) => (JSON.parse(payload) as { delta: { text: string } }).delta.text)
          .join('');
        expect(joined).toMatch(masked);
      }),
    );
  });

  it('are masked in what follows a frame, while a cut or malformed stream that has none is unchanged', () => {
    const frames = Buffer.concat([makeFrame('{"delta":{"text":"hello"}}'), makeFrame('{}').subarray(0, 20)]);
    expect(maskEventStream(frames, wanted)).toBe(frames);
    const other = randomBytes(100);
    expect(maskEventStream(other, wanted)).toBe(other);
    const rest = Buffer.concat([makeFrame('{}'), Buffer.from(`cut ${credential}`)]);
    expect(maskEventStream(rest, { ...wanted, shapes: false }).toString('latin1')).toContain(
      'cut [redacted]',
    );
    expect(findSplitSecrets(makeSse(['a', 'b'], 'text'), nothing)).toEqual([]);
  });
});
