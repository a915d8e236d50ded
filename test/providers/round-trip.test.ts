/**
 * Turns are written in each wire format and dialect, whole and streamed with random cuts, and are read back unchanged.
 * They include integers beyond 2^53, halves of surrogate pairs and empty parts. A request that repeats the answer
 * continues its conversation.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ApiShape } from '../../src/domain/exchange.ts';
import type { TurnBlock } from '../../src/domain/turn.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { normalizeTurn, readTurn } from '../../src/providers/normal-turn.ts';
import type { StoredExchange } from '../../src/providers/stored-exchange.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { type Asked, type Body, CODECS, type Codec, type Counts, type Said } from './wire-codecs.ts';

const text = fc
  .array(
    fc.constantFrom('a', 'é', '😀', '\ud83d', '\ude00', '"', '\\', '\n', '\r', '\u0000', ' ', '{', 'data: '),
    {
      maxLength: 12,
    },
  )
  .map((pieces) => pieces.join(''));
const number = fc.oneof(
  fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map(String),
  fc.constantFrom('2512292042121000001', '1.0', '0.10', '-0', '1e3', '0.1', '12345678901234567890.5', '-7'),
);
const value = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    number,
    text.map((sample) => JSON.stringify(sample)),
    fc.constantFrom('true', 'null', '{}', '[]'),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
    fc
      .array(tie('value'), { maxLength: 3 })
      .map((items) => `{${items.map((item, at) => `"k${at}":${item}`)}}`),
  ),
})).value;
const input = fc
  .array(value, { maxLength: 3 })
  .map((items) => parseExact(`{${items.map((item, at) => `"p${at}":${item}`)}}`) as object);

const call = fc.record({ name: fc.constantFrom('get', 'get_time', 'read file'), input });
const said: fc.Arbitrary<Said> = fc
  .record({ thinking: text, text, calls: fc.array(call, { maxLength: 3 }) })
  .map(({ calls, ...rest }) => ({
    ...rest,
    calls: calls.map((call, at) => ({ id: `call_${at}`, ...call })),
  }));
const counts: fc.Arbitrary<Counts> = fc.record({
  input: fc.integer({ min: 1, max: 1_000 }),
  output: fc.integer({ min: 1, max: 1_000 }),
  read: fc.nat(900),
  written: fc.nat(900),
});
const asked: fc.Arbitrary<Asked> = fc.record({
  system: text,
  user: text.map((sample) => `Do it: ${sample}`),
  before: fc.option(
    said.chain((answer) =>
      fc
        .array(text, { minLength: answer.calls.length, maxLength: answer.calls.length })
        .map((results) => ({ said: renamed(answer), results })),
    ),
  ),
});

/** The answer with other ids. */
function renamed(answer: Said): Said {
  return { ...answer, calls: answer.calls.map((each, at) => ({ ...each, id: `earlier_${at}` })) };
}

/** Cuts a text into pieces of these lengths, which are repeated as needed. */
const cutBy =
  (lengths: readonly number[]) =>
  (whole: string): string[] => {
    const pieces: string[] = [];
    for (let at = 0, i = 0; at < whole.length; i += 1) {
      const length = lengths[i % lengths.length]!;
      pieces.push(whole.slice(at, at + length));
      at += length;
    }
    return pieces;
  };

function stored({ shape, path }: Codec, request: unknown, { bytes, content_type }: Body): StoredExchange {
  return {
    shape,
    path,
    status: 200,
    request_headers: [],
    response_headers: ['content-type', content_type],
    request_body: Buffer.from(JSON.stringify(request)),
    response_body: bytes,
    truncated: false,
  };
}

/** Blocks in a form for comparisons, without empty parts and without ids that have no meaning. */
function words(blocks: readonly TurnBlock[], { drops_ids }: Codec): string[] {
  return blocks.flatMap((block) => {
    switch (block.type) {
      case 'text':
      case 'thinking':
        return block.text === '' ? [] : [JSON.stringify([block.type, block.text])];
      case 'tool_call':
        return [JSON.stringify([drops_ids ? '' : block.id, block.name, block.input])];
      case 'tool_result':
        return [JSON.stringify(['result', drops_ids ? '' : block.call_id, block.name, block.content])];
      default:
        return [JSON.stringify(block)];
    }
  });
}

function wordsOf({ thinking, text: own, calls }: Said, codec: Codec): string[] {
  const told: string[] = [];
  if (thinking !== '' && !codec.only_text) told.push(JSON.stringify(['thinking', thinking]));
  if (own !== '') told.push(JSON.stringify(['text', own]));
  if (!codec.only_text)
    for (const call of calls)
      told.push(JSON.stringify([codec.drops_ids ? '' : call.id, call.name, call.input]));
  return told;
}

/** The words, answers and results of the request, as the codec wrote them. */
function wordsAsked({ user, before }: Asked, codec: Codec): string[] {
  const told = [JSON.stringify(['text', user])];
  if (before === null || codec.only_text) return told;
  told.push(...wordsOf(before.said, codec));
  for (const [at, { id, name }] of before.said.calls.entries()) {
    const result = before.results[at]!;
    const content =
      codec.shape === 'gemini'
        ? [{ type: 'text', text: JSON.stringify({ output: result }) }]
        : result === '' && codec.shape !== 'bedrock_converse'
          ? []
          : [{ type: 'text', text: result }];
    told.push(JSON.stringify(['result', codec.drops_ids ? '' : id, name, content]));
  }
  told.push(JSON.stringify(['text', 'Go on.']));
  return told;
}

const whole = (codec: Codec, answer: Said, told: Counts): Body => ({
  bytes: Buffer.from(JSON.stringify(codec.whole(answer, told))),
  content_type: 'application/json',
});

const cases = Object.entries(CODECS).flatMap(([shape, dialects]) =>
  Object.entries(dialects).map(([dialect, codec]) => [`${shape}, ${dialect}`, codec] as const),
);

describe.each(cases)('%s', (_name, codec) => {
  it('is read as it was written, whole and streamed', () => {
    fc.assert(
      fc.property(
        asked,
        said,
        counts,
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
        (ask, answer, told, lengths) => {
          for (const body of [whole(codec, answer, told), codec.stream(answer, told, cutBy(lengths))]) {
            const turn = normalizeTurn(stored(codec, codec.request(ask), body))!;
            expect(turn.problem).toBe('');
            expect(words(turn.answer.content, codec)).toEqual(wordsOf(answer, codec));
            expect(turn.request.messages.flatMap(({ content }) => words(content, codec))).toEqual(
              wordsAsked(ask, codec),
            );
            const calls = !codec.only_text && answer.calls.length > 0;
            expect(turn.answer.stop_reason).toBe(calls ? 'tool_use' : 'end_turn');
            const { usage } = turn.answer;
            expect([usage.input_tokens, usage.output_tokens]).toEqual([told.input, told.output]);
            if (!codec.only_text) expect(usage.cache_read_tokens).toBe(told.read);
          }
        },
      ),
    );
  });

  it('is the same conversation in its echo', () => {
    if (codec.only_text) return;
    fc.assert(
      fc.property(asked, said, counts, (ask, answer, told) => {
        const first = decodeExchange(
          stored(codec, codec.request({ ...ask, before: null }), codec.stream(answer, told, cutBy([3]))),
        );
        const results = answer.calls.map(() => 'r');
        const next = codec.request({ ...ask, before: { said: answer, results } });
        const echo = stored(codec, next, whole(codec, answer, told));
        const second = decodeExchange(echo);
        expect(second.conversation).toContain(first.answered);
        // Numbers have the same fingerprint with and without their original digits.
        expect(readTurn(echo)!.conversation.prefixes).toEqual(second.conversation);
      }),
      { numRuns: 50 },
    );
  });
});

it('the codecs write as many wire formats as they are listed under', () => {
  const shapes: ApiShape[] = cases.map(([, { shape }]) => shape);
  expect(new Set(shapes).size).toBe(Object.keys(CODECS).length);
});
