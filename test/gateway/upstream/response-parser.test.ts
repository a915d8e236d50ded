/** Valid and invalid answers of upstreams: what is read and what is refused, in any pieces. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UPSTREAM_CHUNK_LINE_BYTES } from '../../../src/gateway/upstream/chunked-decoder.ts';
import { UPSTREAM_HEAD_BYTES } from '../../../src/limits.ts';
import { drawsOf } from '../../long-parts.ts';
import { type ParsedAnswer, parseByNode, parseByUs } from './parsed-answer.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');
const parse = (text: string, method = 'GET') => parseByUs([bytes(text)], method);
const OK = 'HTTP/1.1 200 OK\r\n';

describe('an answer', () => {
  it('passes its head on unchanged', () => {
    expect(
      parse(
        'HTTP/1.1 299 Quite  \xe9 Fine\r\nSet-Cookie: a=1\r\nX:\t b \t c \t\r\nset-cookie:b\xff\r\nE:\r\n\r\n',
      ),
    ).toMatchObject({
      outcome: 'whole',
      status: 299,
      reason: 'Quite  \xe9 Fine',
      headers: ['Set-Cookie', 'a=1', 'X', 'b \t c', 'set-cookie', 'b\xff', 'E', ''],
    });
  });

  it.each([
    ['a length', `${OK}Content-Length: 5\r\n\r\nhello`, 'hello', true],
    ['a length of 0', `${OK}content-length: 000\r\n\r\n`, '', true],
    ['chunks', `${OK}Transfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n02\r\nlo\r\n0\r\n\r\n`, 'hello', true],
    [
      'extensions',
      `${OK}transfer-encoding: chunked\r\n\r\n5;a=b;c="d e"\r\nhello\r\n0;x\r\n\r\n`,
      'hello',
      true,
    ],
    ['no framing', `${OK}\r\nhello`, 'hello', false],
    ['a reason of nothing', 'HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n', '', true],
    ['no reason at all', 'HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n', '', true],
    ['line ends before it', `\r\n\r\n${OK}content-length: 0\r\n\r\n`, '', true],
    ['Connection: close', `${OK}connection: a, Close\r\ncontent-length: 2\r\n\r\nhi`, 'hi', false],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi', 'hi', false],
    [
      'HTTP/1.0, kept',
      'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi',
      'hi',
      true,
    ],
    [
      'HTTP/1.0, both',
      'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi',
      'hi',
      false,
    ],
    [
      'HTTP/1.0 in chunks',
      'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n',
      'hi',
      false,
    ],
    ['204', 'HTTP/1.1 204 No Content\r\n\r\n', '', true],
    ['304 with a length', 'HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n', '', false],
    ['204 with chunks', 'HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n', '', false],
  ])('with %s is read whole', (_name, text, body, isKept) => {
    expect(parse(text)).toMatchObject({ outcome: 'whole', body, isKept, surplus: 0 });
  });

  it('to HEAD has no body, whatever it announces, and its connection is not used again', () => {
    for (const framing of ['content-length: 5', 'transfer-encoding: chunked', 'x: y']) {
      expect(parse(`${OK}${framing}\r\n\r\n`, 'HEAD')).toMatchObject({
        outcome: 'whole',
        body: '',
        isKept: false,
      });
    }
  });

  it('may follow informational ones', () => {
    expect(
      parse(
        `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n${OK}content-length: 1\r\n\r\nx`,
      ),
    ).toMatchObject({ outcome: 'whole', informational: [100, 103], status: 200, body: 'x' });
  });

  it('may end with trailers', () => {
    expect(
      parse(`${OK}transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: \xe9\r\nb: c \r\n\r\n`),
    ).toMatchObject({ outcome: 'whole', body: 'x', trailers: ['X-Sum', '\xe9', 'b', 'c'] });
  });

  it('says how long its connection is kept', () => {
    expect(parse(`${OK}content-length: 0\r\nkeep-alive: max=9, timeout=7\r\n\r\n`).kept_ms).toBe(7_000);
    expect(parse(`${OK}content-length: 0\r\nkeep-alive: xtimeout=7\r\n\r\n`).kept_ms).toBeNull();
  });

  it('does not include the bytes after its end', () => {
    expect(parse(`${OK}content-length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n`)).toMatchObject({
      body: 'hi',
      surplus: 17,
    });
    expect(parse(`${OK}transfer-encoding: chunked\r\n\r\n0\r\n\r\n\r\n`)).toMatchObject({
      body: '',
      surplus: 2,
    });
    expect(parse(`HTTP/1.1 204 No\r\n\r\nbody`)).toMatchObject({ body: '', surplus: 4 });
    expect(parse(`${OK}content-length: 3\r\n\r\nabc`, 'HEAD')).toMatchObject({ body: '', surplus: 3 });
  });

  it.each([
    ['a length', `${OK}content-length: 5\r\n\r\nhell`],
    ['chunks', `${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n`],
    ['its head', `${OK}content-length: 5\r\n`],
    ['nothing', ''],
  ])('that ends too early with %s is cut off', (_name, text) => {
    expect(parse(text).outcome).toBe('cut');
  });
});

describe('a malformed answer', () => {
  const length = (value: string) => `${OK}content-length: ${value}\r\n\r\nhello`;
  const coding = (value: string) => `${OK}transfer-encoding: ${value}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`;
  const chunked = (body: string) => `${OK}transfer-encoding: chunked\r\n\r\n${body}`;

  it.each([
    ['two lengths', `${OK}content-length: 5\r\ncontent-length: 6\r\n\r\nhello`],
    ['the same length twice', `${OK}content-length: 5\r\nContent-Length: 5\r\n\r\nhello`],
    ['a list of lengths', length('5, 5')],
    ['a signed length', length('+5')],
    ['a negative length', length('-5')],
    ['a hexadecimal length', length('0x5')],
    ['a length with a fraction', length('5.0')],
    ['a length with a blank in it', length('5 5')],
    ['an empty length', length('')],
    ['a length beyond all bounds', length('9999999999999999')],
    ['a length and chunks', `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunks and a length', `${OK}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n`],
    ['chunked twice', coding('chunked, chunked')],
    [
      'chunked in two lines',
      `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['gzip, chunked', coding('gzip, chunked')],
    ['chunked, gzip', coding('chunked, gzip')],
    ['gzip', coding('gzip')],
    ['identity', coding('identity')],
    ['xchunked', coding('xchunked')],
    ['chunked with a control character', coding('\x0bchunked')],
    ['an empty coding', coding('')],
    [
      'a switch of protocols',
      'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    ],
    ['HTTP/2.0', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['HTTP/1.2', 'HTTP/1.2 200 OK\r\n\r\n'],
    ['HTTP/1.10', 'HTTP/1.10 200 OK\r\n\r\n'],
    ['no HTTP', 'ICY 200 OK\r\n\r\n'],
    ['http', 'http/1.1 200 OK\r\n\r\n'],
    ['a blank before the version', ' HTTP/1.1 200 OK\r\n\r\n'],
    ['two blanks before the status', 'HTTP/1.1  200 OK\r\n\r\n'],
    ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
    ['a status below 100', 'HTTP/1.1 099 OK\r\n\r\n'],
    ['a signed status', 'HTTP/1.1 +20 OK\r\n\r\n'],
    ['a NUL in the reason', 'HTTP/1.1 200 O\0K\r\n\r\n'],
    ['a bare CR in the reason', 'HTTP/1.1 200 O\rK\r\n\r\n'],
    ['a bare LF behind the status line', 'HTTP/1.1 200 OK\nx: y\r\n\r\n'],
    ['only bare LFs', 'HTTP/1.1 200 OK\nx: y\n\nbody'],
    ['a bare LF behind a header', `${OK}x: y\n\r\n`],
    ['a bare LF as the blank line', `${OK}x: y\r\n\n`],
    ['a bare CR in a value', `${OK}x: a\rb\r\n\r\n`],
    ['a bare CR in front of a line end', `${OK}x: a\r\r\n\r\n`],
    ['a NUL in a value', `${OK}x: a\0b\r\n\r\n`],
    ['a DEL in a value', `${OK}x: a\x7fb\r\n\r\n`],
    ['a form feed in a value', `${OK}x: a\x0cb\r\n\r\n`],
    ['a folded line', `${OK}x: a\r\n b\r\n\r\n`],
    ['a folded line with a tab', `${OK}x: a\r\n\tb: c\r\n\r\n`],
    ['a folded line behind the status', `${OK} x: a\r\n\r\n`],
    ['a blank before the colon', `${OK}x : a\r\n\r\n`],
    ['a length with a blank before the colon', `${OK}content-length : 5\r\n\r\nhello`],
    ['no name', `${OK}: a\r\n\r\n`],
    ['no colon', `${OK}xa\r\n\r\n`],
    ['a byte above 127 in a name', `${OK}x\xe9: a\r\n\r\n`],
    ['a NUL in a name', `${OK}x\0: a\r\n\r\n`],
    ['brackets in a name', `${OK}x[0]: a\r\n\r\n`],
    ['a chunk size of nothing', chunked('\r\nhello\r\n0\r\n\r\n')],
    ['an invalid chunk size', chunked('g\r\nhello\r\n0\r\n\r\n')],
    ['a negative chunk size', chunked('-5\r\nhello\r\n0\r\n\r\n')],
    ['a signed chunk size', chunked('+5\r\nhello\r\n0\r\n\r\n')],
    ['a chunk size with 0x', chunked('0x5\r\nhello\r\n0\r\n\r\n')],
    ['a chunk size with a blank before it', chunked(' 5\r\nhello\r\n0\r\n\r\n')],
    ['a chunk size with a blank behind it', chunked('5 \r\nhello\r\n0\r\n\r\n')],
    ['a chunk size with a NUL', chunked('5\0\r\nhello\r\n0\r\n\r\n')],
    ['a chunk size that ends with a bare LF', chunked('5\nhello\r\n0\r\n\r\n')],
    ['a chunk size that ends with a bare CR', chunked('5\rhello\r\n0\r\n\r\n')],
    ['a chunk size with too many digits', chunked('ffffffffffffffff\r\nhello')],
    ['a chunk size that overflows', chunked('10000000000000005\r\nhello')],
    ['a chunk size of endless zeros', chunked(`${'0'.repeat(40)}5\r\nhello`)],
    ['a chunk that is longer than its size', chunked('4\r\nhello\r\n0\r\n\r\n')],
    ['a chunk that is shorter than its size', chunked('6\r\nhello\r\n0\r\n\r\n')],
    ['a chunk that ends with a bare LF', chunked('5\r\nhello\n0\r\n\r\n')],
    ['a bare LF in an extension', chunked('5;a\nb\r\nhello\r\n0\r\n\r\n')],
    ['a bare CR in an extension', chunked('5;a\rb\r\nhello\r\n0\r\n\r\n')],
    ['an extension without end', chunked(`5;${'a'.repeat(UPSTREAM_CHUNK_LINE_BYTES + 1)}`)],
    ['a last chunk that ends with a bare LF', chunked('0\n\r\n')],
    ['a blank line of a bare LF', chunked('0\r\n\n')],
    ['a folded trailer', chunked('0\r\nx: a\r\n b\r\n\r\n')],
    ['an invalid trailer', chunked('0\r\nHTTP/1.1 200 OK\r\n\r\n')],
    ['a head without end', `${OK}x: ${'a'.repeat(UPSTREAM_HEAD_BYTES)}`],
    ['a head that is too long', `${OK}x: ${'a'.repeat(UPSTREAM_HEAD_BYTES)}\r\n\r\n`],
    ['a head of too many lines', `${OK}${'x: a\r\n'.repeat(UPSTREAM_HEAD_BYTES / 6)}\r\n`],
    [
      'informational heads without end',
      `HTTP/1.1 103 Early Hints\r\n\r\n`.repeat(UPSTREAM_HEAD_BYTES / 28 + 1),
    ],
    ['line ends without end', '\r\n'.repeat(UPSTREAM_HEAD_BYTES)],
    ['trailers without end', chunked(`0\r\n${'x: a\r\n'.repeat(UPSTREAM_HEAD_BYTES / 6 + 1)}`)],
  ])('with %s is refused, whole and in pieces', (_name, text) => {
    expect(parse(text)).toMatchObject({ outcome: 'refused', isKept: expect.any(Boolean) });
    const size = text.length > 2_000 ? 499 : 1;
    const pieces: Buffer[] = [];
    for (let at = 0; at < text.length; at += size) pieces.push(bytes(text.slice(at, at + size)));
    expect(parseByUs(pieces)).toMatchObject({ outcome: 'refused' });
  });

  it('is refused as soon as its beginning is malformed, before the rest arrives', () => {
    for (const beginning of ['SSH-2.0', 'H2', '<html', `HTTP/1.1 200 OK\n`, `${OK}x: y\n`, `${OK}\n`]) {
      expect(parse(beginning).outcome).toBe('refused');
    }
  });
});

/** Valid answers of all kinds. */
const token = fc.string({
  unit: fc.constantFrom(...'abcXYZ019-_.!~'),
  minLength: 1,
  maxLength: 8,
});
const text = fc
  .string({ unit: fc.constantFrom(...'ab Z09;=,"\t\xe9\xff'), maxLength: 12 })
  .map((value) => value.replace(/^[ \t]+|[ \t]+$/g, ''));
const OWN_NAMES = /^(?:content-length|transfer-encoding|connection|keep-alive|upgrade|trailer)$/i;
const field = fc.tuple(
  token.filter((name) => !OWN_NAMES.test(name)),
  text,
);
const lines = (fields: readonly (readonly [string, string])[], ows: string) =>
  fields.map(([name, value]) => `${name}:${ows}${value}${ows}\r\n`).join('');
const body = fc.string({ unit: fc.constantFrom(...'abc\r\n0:\0\xff '), maxLength: 40 });
const ows = fc.constantFrom('', ' ', '\t', ' \t ');

const validAnswer = fc
  .record({
    informational: fc.array(fc.constantFrom(102, 103, 199), { maxLength: 2 }),
    status: fc.constantFrom(200, 201, 299, 404, 500, 999),
    reason: text,
    fields: fc.array(field, { maxLength: 4 }),
    connection: fc.constantFrom(
      '',
      'connection: close\r\n',
      'Connection: keep-alive\r\n',
      'connection: x-a\r\n',
    ),
    framing: fc.constantFrom('length', 'chunked', 'none'),
    chunks: fc.array(body, { maxLength: 4 }),
    extension: fc.constantFrom('', ';a', ';a=b', ';a="b c"'),
    trailers: fc.array(field, { maxLength: 2 }),
    ows,
  })
  .map((made) => {
    const whole = made.chunks.join('');
    const informational = made.informational
      .map((status) => `HTTP/1.1 ${status} Info\r\n${lines(made.fields, made.ows)}\r\n`)
      .join('');
    const head = `HTTP/1.1 ${made.status} ${made.reason}\r\n${lines(made.fields, made.ows)}${made.connection}`;
    if (made.framing === 'length') {
      return `${informational}${head}Content-Length:${made.ows}${whole.length}\r\n\r\n${whole}`;
    }
    if (made.framing === 'none') return `${informational}${head}\r\n${whole}`;
    const framed = made.chunks
      .filter((chunk) => chunk !== '')
      .map((chunk) => `${chunk.length.toString(16)}${made.extension}\r\n${chunk}\r\n`)
      .join('');
    return `${informational}${head}Transfer-Encoding: chunked\r\n\r\n${framed}0\r\n${lines(made.trailers, made.ows)}\r\n`;
  });

/** The same answers with a part inserted, removed or replaced. */
const brokenAnswer = fc
  .tuple(
    validAnswer,
    fc.array(
      fc.tuple(
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat({ max: 3 }),
        fc.constantFrom(
          ...[
            '\r',
            '\n',
            '\r\n',
            ' ',
            '\t',
            ':',
            '\0',
            '\x7f',
            '\xff',
            '0',
            '5',
            'a',
            ';',
            ',',
            '-',
            '+',
            'x: y\r\n',
          ],
          ...[
            'content-length: 3\r\n',
            'transfer-encoding: chunked\r\n',
            'Transfer-Encoding: gzip\r\n',
            'HTTP/1.1 200 OK\r\n',
            '\r\n\r\n',
          ],
        ),
      ),
      { minLength: 1, maxLength: 3 },
    ),
  )
  .map(([answer, changes]) => {
    let changed = answer;
    for (const [where, cut, put] of changes) {
      const at = Math.floor(where * changed.length);
      changed = changed.slice(0, at) + put + changed.slice(at + cut);
    }
    return changed;
  });

const RUNS = drawsOf(1_500);

describe('answers in pieces', () => {
  const splits = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 8 });
  it.each([
    ['in order', validAnswer],
    ['broken', brokenAnswer],
  ])('%s are read as in one piece', (_name, answers) => {
    fc.assert(
      fc.property(answers, splits, fc.constantFrom('GET', 'HEAD'), (answer, sizes, method) => {
        const whole = parse(answer, method);
        const pieces: Buffer[] = [];
        for (let at = 0, turn = 0; at < answer.length; turn++) {
          const size = sizes[turn % sizes.length]!;
          pieces.push(bytes(answer.slice(at, at + size)));
          at += size;
        }
        const { outcome, why, ...rest } = parseByUs(pieces, method);
        expect(outcome).toBe(whole.outcome);
        // For a refused answer, the pieces may change how much was passed on and which fault was found first.
        if (outcome !== 'refused') expect({ outcome, why, ...rest }).toEqual(whole);
      }),
      RUNS,
    );
  });
});

/**
 * Our parser is stricter than llhttp on purpose, so llhttp may accept what ours refuses. (It accepts control characters
 * and half a line end in a reason phrase or an extension, unknown versions, other or repeated codings, and zeros
 * without end.)
 */
const STRICTER = [
  'a malformed reason phrase',
  'a malformed status line',
  'not an HTTP/1.1 answer',
  'a Transfer-Encoding that is not exactly chunked',
  'a repeated Transfer-Encoding',
  'a malformed chunk extension',
  'a chunk size with too many digits',
  'a status below 100',
];

describe('compared with llhttp', () => {
  const shown = ({
    outcome,
    informational,
    status,
    reason,
    headers,
    body: read,
    trailers,
  }: ParsedAnswer) => ({
    outcome,
    informational,
    status,
    reason,
    headers,
    body: read,
    trailers,
  });

  it('a valid answer is read in the same way', async () => {
    await fc.assert(
      fc.asyncProperty(validAnswer, async (answer) => {
        const ours = parse(answer);
        expect(ours.outcome).toBe('whole');
        expect(shown(ours)).toEqual(shown(await parseByNode(bytes(answer))));
      }),
      RUNS,
    );
  });

  it('broken answers are never read where llhttp refuses, and never differently', async () => {
    await fc.assert(
      fc.asyncProperty(brokenAnswer, async (answer) => {
        const ours = parse(answer);
        // For bytes after an answer, our parser gives up the connection, but llhttp also refuses the answer.
        const nodes = await parseByNode(bytes(answer.slice(0, answer.length - ours.surplus)));
        if (ours.outcome === 'whole') expect(shown(ours)).toEqual(shown(nodes));
        else if (nodes.outcome === 'whole') expect(STRICTER).toContain(ours.why);
      }),
      RUNS,
    );
  });
});
